"""Audits on Spark: checks, reports, the server of a lake."""

from __future__ import annotations

from typing import Final

# Java prints its version in a fraction of a second; one that hangs must not block a session.
JAVA_ANSWER_S: Final = 30.0

# A server that Spark jobs start is ready in a second; a busy machine takes a dozen.
SERVER_READY_S: Final = 120.0

# Longer than a stopping server itself waits for running requests.
SERVER_STOP_S: Final = 60.0

# Checks of one audit: each is a job on the cluster or a column beside a write.
AUDIT_CHECKS_MAX: Final = 1_000

# Checks that run at once: enough to fill the cores while one of them waits for its last task.
AUDIT_CHECKS_TOGETHER_MAX: Final = 4

# Times that an audit is repeated because its target has moved; then other writers are faster.
AUDIT_ATTEMPTS_MAX: Final = 5

# Commits that one audit publishes by fast-forward: each of them is checked by itself.
AUDIT_COMMITS_MAX: Final = 100

# How long the branch of an audit is kept: a day, so that a failed one can be looked at.
AUDIT_TTL_S: Final = 86_400

# The name of an audit's job: its later writes have a number behind it, within that of a job.
AUDIT_JOB_CHARACTERS_MAX: Final = 490

# How far the clocks that wrote a table's times may be ahead of ours.
FRESH_AHEAD_S_MAX: Final = 300

# The same for dates: a day begins up to 14 hours earlier east of Greenwich.
FRESH_DATE_AHEAD_S_MAX: Final = 86_400

# A file of checks: as many as there may be, each of a few hundred bytes.
CHECK_FILE_BYTES_MAX: Final = 1_048_576

# Keys that a report lists as changed; beyond, it only counts them.
REPORT_CHANGES_MAX: Final = 1_000

# A value or a sentence in a report; a longer one is cut, so that data cannot fill the report.
REPORT_TEXT_CHARACTERS_MAX: Final = 1_000

# What of an error is searched for secrets before it is cut: texts of Spark hold whole plans.
REPORT_ERROR_CHARACTERS_MAX: Final = 65_536
