"""Who calls, and what a caller may do: users, groups, policies and credentials, as rows."""
