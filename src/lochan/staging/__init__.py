"""Files: staged changes of branches, and the protocol of the places that hold their bytes."""
