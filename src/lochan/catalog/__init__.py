"""Contents on keys: types, validations, namespaces; the commits and merges that obey them."""
