//! floed: listens, authenticates, admits, starts one worker process per session.
