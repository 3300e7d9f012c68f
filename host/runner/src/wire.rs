//! The requests of clients to PID 1: a length, then fields that each end with a NUL byte (which an argv cannot contain).
//!
//! The length shows whether a request is complete: a client that dies while it writes never starts an incomplete argv.
use crate::limits::{LONGEST, REQUEST_BYTES};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;
use tanist_protocol::call::Expect;
use tanist_protocol::number;

/// Parses comma-separated status codes. An empty list is an error, because the command could never start.
pub fn read_codes(text: &str) -> Option<Vec<u8>> {
    text.split(',').map(number).collect()
}

/// The condition that the data has not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IfSequence {
    /// The position that the sequence command has to print.
    pub expected: String,
    /// How long the sequence command may run.
    pub deadline: Duration,
    /// The argv of the sequence command.
    pub argv: Vec<OsString>,
}

/// A command to run once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// Its name; a token is never used again.
    pub token: String,
    /// The UID of the pod that it is meant for.
    pub uid: String,
    /// How long it may run, from the moment in which PID 1 accepts it.
    pub deadline: Duration,
    /// The expected state after its success. Absent: it does not change.
    pub expect: Option<Expect>,
    /// Whether no status poll may run beside it.
    pub quiet: bool,
    /// It starts only if a new status poll exits with one of these codes. Absent: no condition.
    pub if_status: Option<Vec<u8>>,
    /// It starts only if the data has not changed. Absent: no condition.
    pub if_sequence: Option<IfSequence>,
    /// Environment variables of the command, `KEY=VALUE`, beside those of this process.
    pub env: Vec<OsString>,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
}

/// One request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Run a command once.
    Exec(Exec),
    /// Report what is known of a token, and make it void if it was never started.
    Settle {
        /// The token of the command that is settled.
        token: String,
        /// The UID of the pod that it was meant for.
        uid: String,
    },
    /// Run a new status poll.
    Status {
        /// The UID of the pod that the request is meant for.
        uid: String,
    },
}

impl Request {
    /// The bytes on the socket, length first.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let mut field = |bytes: &[u8]| {
            body.extend_from_slice(bytes);
            body.push(0);
        };
        match self {
            Request::Exec(exec) => {
                field(b"exec");
                field(exec.token.as_bytes());
                field(exec.uid.as_bytes());
                field(exec.deadline.as_millis().to_string().as_bytes());
                field(exec.expect.map_or("-", Expect::word).as_bytes());
                field(if exec.quiet { b"quiet" } else { b"-" });
                let codes = exec.if_status.as_ref().map(|codes| codes.iter().map(u8::to_string).collect::<Vec<_>>());
                field(codes.map_or("-".into(), |codes| codes.join(",")).as_bytes());
                match &exec.if_sequence {
                    None => field(b"-"),
                    Some(look) => {
                        field(look.argv.len().to_string().as_bytes());
                        field(look.expected.as_bytes());
                        field(look.deadline.as_millis().to_string().as_bytes());
                        look.argv.iter().for_each(|item| field(item.as_bytes()));
                    }
                }
                field(exec.env.len().to_string().as_bytes());
                exec.env.iter().chain(&exec.argv).for_each(|item| field(item.as_bytes()));
            }
            Request::Settle { token, uid } => {
                field(b"settle");
                field(token.as_bytes());
                field(uid.as_bytes());
            }
            Request::Status { uid } => {
                field(b"status");
                field(uid.as_bytes());
            }
        }
        let mut bytes = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
        bytes.append(&mut body);
        bytes
    }

    /// Reads the body of a request.
    pub fn decode(body: &[u8]) -> Option<Request> {
        let mut fields = body.strip_suffix(&[0])?.split(|b| *b == 0);
        let text = |field: &[u8]| std::str::from_utf8(field).ok().map(str::to_owned);
        let word = |item: &[u8]| OsString::from_vec(item.to_vec());
        let request = match fields.next()? {
            b"exec" => Request::Exec(Exec {
                token: text(fields.next()?)?,
                uid: text(fields.next()?)?,
                deadline: Duration::from_millis(text(fields.next()?)?.parse().ok()?).min(LONGEST),
                expect: Expect::parse(fields.next()?),
                quiet: fields.next()? == b"quiet",
                // A condition that cannot be parsed must not be dropped.
                if_status: match fields.next()? {
                    b"-" => None,
                    codes => Some(read_codes(&text(codes)?)?),
                },
                if_sequence: match fields.next()? {
                    b"-" => None,
                    count => {
                        let count: usize = number(&text(count)?).filter(|count| *count > 0)?;
                        let expected = text(fields.next()?)?;
                        let deadline = Duration::from_millis(text(fields.next()?)?.parse().ok()?).min(LONGEST);
                        let argv: Vec<_> = fields.by_ref().take(count).map(word).collect();
                        if argv.len() != count {
                            return None;
                        }
                        Some(IfSequence { expected, deadline, argv })
                    }
                },
                env: {
                    let count: usize = number(&text(fields.next()?)?)?;
                    let env: Vec<_> = fields.by_ref().take(count).map(word).collect();
                    if env.len() != count {
                        return None;
                    }
                    env
                },
                argv: fields.by_ref().map(word).collect(),
            }),
            b"settle" => Request::Settle { token: text(fields.next()?)?, uid: text(fields.next()?)? },
            b"status" => Request::Status { uid: text(fields.next()?)? },
            _ => return None,
        };
        fields.next().is_none().then_some(request)
    }
}

/// Reads one complete request.
pub fn read_request(stream: &mut impl Read) -> io::Result<Request> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u64::from(u32::from_be_bytes(length));
    if length > REQUEST_BYTES as u64 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = Vec::new();
    stream.take(length).read_to_end(&mut body)?;
    if body.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Request::decode(&body).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_socket_whole_or_not_at_all() {
        let argv = ["-rf", "$(id)", "", "ü\n"].map(OsString::from).to_vec();
        let exec = Request::Exec(Exec {
            token: "t".into(),
            uid: "u".into(),
            deadline: Duration::from_millis(1500),
            expect: Some(Expect::Stopped),
            quiet: true,
            if_status: Some(vec![7, 0, 255]),
            if_sequence: Some(IfSequence {
                expected: "h:7".into(),
                deadline: Duration::from_secs(2),
                argv: vec!["sequence".into(), "-".into()],
            }),
            env: ["A=x y", "B="].map(OsString::from).to_vec(),
            argv,
        });
        for request in
            [exec, Request::Settle { token: "t".into(), uid: String::new() }, Request::Status { uid: "u".into() }]
        {
            let bytes = request.encode();
            assert_eq!(read_request(&mut bytes.as_slice()).unwrap(), request);
            for length in 0..bytes.len() {
                assert!(read_request(&mut &bytes[..length]).is_err());
            }
        }
    }

    #[test]
    fn a_condition_that_cannot_be_read_makes_no_request() {
        let exec = |codes: &str| Request::decode(format!("exec\0t\0u\01000\0-\0-\0{codes}\0-\00\0true\0").as_bytes());
        for (codes, read) in [("-", None), ("7", Some(vec![7])), ("7,0", Some(vec![7, 0]))] {
            let Some(Request::Exec(exec)) = exec(codes) else { panic!("{codes}") };
            assert_eq!((exec.if_status, exec.argv), (read, vec!["true".into()]));
        }
        for codes in ["", ",", "7,", "7,,0", "7, 0", "+7", "-7", "256", "0x7", "seven"] {
            assert_eq!(exec(codes), None, "{codes}");
        }
    }
}
