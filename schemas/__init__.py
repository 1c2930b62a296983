"""Sources of truth as data: op tables and the JSON Schemas of the file formats."""
