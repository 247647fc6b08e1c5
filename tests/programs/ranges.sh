#: program ranges
ranges alone
