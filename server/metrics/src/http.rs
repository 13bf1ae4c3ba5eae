//! HTTP/1.1 as far as a scraper needs it: GET and HEAD, one answer per connection.
//! In: the first bytes of a connection. Out: a request, or the answer that refuses it; an answer's bytes. It reads no
//! body and no header but for their end. It is pure.

use httparse::{EMPTY_HEADER, Error, Status};

/// The most headers of a request. Prometheus sends five.
const HEADERS: usize = 32;

/// The type of short answers.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// A request that may be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// What it asks for, without a query.
    pub(crate) path: String,
    /// Whether the answer has no body.
    pub(crate) is_head: bool,
}

/// What has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// More is needed.
    Part,
    Whole(Request),
    Wrong(Answer),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Answer {
    /// A line of text.
    pub(crate) fn line(status: u16, words: &str) -> Self {
        Self { status, content_type: TEXT, body: format!("{words}\n") }
    }

    /// Its bytes, without the body for HEAD.
    pub(crate) fn bytes(&self, is_head: bool) -> Vec<u8> {
        let allow = if self.status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n{allow}Connection: close\r\n\r\n",
            self.status,
            reason(self.status),
            self.content_type,
            self.body.len()
        );
        let body = if is_head { "" } else { &self.body };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// Reads what has arrived, of which there may be no more than `most` bytes.
pub(crate) fn read(bytes: &[u8], most: usize) -> Arrived {
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) if bytes.len() < most => return Arrived::Part,
        Ok(Status::Partial) | Err(Error::TooManyHeaders) => {
            return Arrived::Wrong(Answer::line(431, "the request's head is too long"));
        }
        Err(_) => return Arrived::Wrong(Answer::line(400, "not a request of HTTP/1.1")),
    }
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    if !matches!(method, "GET" | "HEAD") {
        return Arrived::Wrong(Answer::line(405, "only GET and HEAD are answered"));
    }
    let path = target.split('?').next().unwrap_or_default().to_owned();
    Arrived::Whole(Request { path, is_head: method == "HEAD" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(bytes: &[u8]) -> u16 {
        match read(bytes, 4096) {
            Arrived::Wrong(answer) => answer.status,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn a_request_is_whole_at_its_heads_end_and_not_before() {
        let bytes = b"GET /metrics?name=x HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n";
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end], 4096), Arrived::Part, "{end}");
        }
        let request = Request { path: "/metrics".into(), is_head: false };
        assert_eq!(read(bytes, 4096), Arrived::Whole(request.clone()));
        assert_eq!(read(b"HEAD /metrics HTTP/1.0\r\n\r\n", 4096), Arrived::Whole(Request { is_head: true, ..request }));
    }

    #[test]
    fn what_is_no_get_and_no_head_is_refused() {
        assert_eq!(status(b"POST /metrics HTTP/1.1\r\n\r\n"), 405);
        assert_eq!(status(b"get /metrics HTTP/1.1\r\n\r\n"), 405);
        assert_eq!(status(b"\x16\x03\x01\x02\x00\x01\x00"), 400, "TLS");
        assert_eq!(status(b"GET /metrics HTTP/2.0\r\n\r\n"), 400);
        assert_eq!(status(b"GET /metrics\r\n\r\n"), 400);
    }

    #[test]
    fn a_head_that_is_too_long_is_refused_by_bytes_and_by_headers() {
        let long = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 5000]].concat();
        assert_eq!(status(&long[..4096]), 431);
        assert_eq!(status(["GET / HTTP/1.1\r\n", &"X: y\r\n".repeat(HEADERS + 1), "\r\n"].concat().as_bytes()), 431);
    }

    #[test]
    fn an_answer_says_its_length_also_where_the_body_is_left_away() {
        let answer = Answer::line(405, "no");
        let text = |is_head| String::from_utf8(answer.bytes(is_head)).expect("text");
        assert!(text(false).starts_with("HTTP/1.1 405 Method Not Allowed\r\n"));
        assert!(text(false).ends_with("Content-Length: 3\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nAllow: GET, HEAD\r\nConnection: close\r\n\r\nno\n"));
        assert_eq!(text(true), text(false).strip_suffix("no\n").expect("the body"));
    }
}
