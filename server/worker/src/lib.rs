//! One session's process: decodes, checks, owns the session's objects and quota, drives the device.
