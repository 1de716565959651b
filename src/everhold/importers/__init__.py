"""Import the data of other systems: voice assistants, chat exports and other memory products.

Each source in `sources/` recognises its files (`detect`) and reads them as a stream of drafts (`read`).
`records.py` makes a checked record of each draft, and `pipeline.py` passes the records to one writer.
"""
