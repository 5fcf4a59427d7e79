"""The papers' claims (`ledger`), the code that checks each, the runner (`crosscheck`) and the page (`report`)."""
