"""The report: pictures, text that its forms share, the page, and the files that it is written to."""
