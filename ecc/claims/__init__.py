"""The papers' claims (`ledger`), the checks (`catalog`), the runner (`crosscheck`) and the page (`report`)."""
