"""`lochan access`: users, groups, policies, tokens, access keys and decisions."""
