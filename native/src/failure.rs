//! The one error of this crate: a code that the Python side knows, and the reason in words.

use std::fmt;
use std::io;

/// librdkafka's codes of errors that no broker sent; Python names its errors by them.
pub const BAD_MESSAGE: i32 = -199;
pub const TRANSPORT: i32 = -195;
pub const TIMED_OUT: i32 = -185;
pub const UNSUPPORTED: i32 = -165;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A code of the Kafka protocol, or one of the above.
    pub code: i32,
    pub reason: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(code: i32, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { code, reason }
    }

    pub fn bad(reason: impl Into<String>) -> Self {
        Self::new(BAD_MESSAGE, reason)
    }

    /// Bad bytes of the record batch at `offset`.
    pub fn at(self, offset: i64) -> Self {
        let reason = format!("offset {offset}: {}", self.reason);
        Self { reason, ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.reason, self.code)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Self::new(TIMED_OUT, "the broker did not answer in time")
            }
            _ => Self::new(TRANSPORT, format!("connection to the broker: {error}")),
        }
    }
}

/// Fail on an error code in a response.
pub fn check(code: i16, what: &str) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => {
            let name = kafka_protocol::ResponseError::try_from_code(code);
            let name = name.map_or_else(|| code.to_string(), |known| format!("{known:?}"));
            Err(Failure::new(i32::from(code), format!("{what}: {name}")))
        }
    }
}
