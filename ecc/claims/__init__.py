"""The papers' claims (`ledger`), the code that checks them (`catalog`), the runner (`crosscheck`), the page (`report`)."""
