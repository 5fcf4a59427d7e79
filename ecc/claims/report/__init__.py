"""The report: pictures, texts shared by its formats, the HTML page, and the writers of its files."""
