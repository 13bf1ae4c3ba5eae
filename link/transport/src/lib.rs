//! Moves framed bytes between client and server: TCP, Unix socket.
