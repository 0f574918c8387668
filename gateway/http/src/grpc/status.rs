//! How a call ended.

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $failure:literal;)+) => {
        /// How a call ended (gRPC's "Status codes and their use in gRPC"). The number is what `grpc-status` says.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Code {
            $($(#[$doc])* $variant = $number,)+
        }

        impl Code {
            /// Every code, in order of its number.
            pub const ALL: [Code; 17] = [$(Code::$variant),+];

            /// The HTTP status that says of the endpoint what this code does: 500 or more, if the endpoint is at fault
            /// rather than the call. The statuses are those of `google/rpc/code.proto`, less `unimplemented`: a client
            /// that asks for what there is not says nothing about the endpoint.
            #[must_use]
            pub const fn as_http(self) -> u16 {
                match self { $(Code::$variant => $failure,)+ }
            }
        }
    };
}

codes! {
    /// It succeeded.
    Ok = 0, 200;
    /// The caller cancelled it.
    Cancelled = 1, 499;
    /// Unknown: also what a server's unhandled error becomes.
    Unknown = 2, 500;
    /// The argument is invalid whatever the state.
    InvalidArgument = 3, 400;
    /// The deadline expired.
    DeadlineExceeded = 4, 504;
    /// Something asked for was not found.
    NotFound = 5, 404;
    /// Something to be created exists.
    AlreadyExists = 6, 409;
    /// The caller may not do this.
    PermissionDenied = 7, 403;
    /// A quota or a resource is used up.
    ResourceExhausted = 8, 429;
    /// The system is not in the state that the call needs.
    FailedPrecondition = 9, 400;
    /// It was aborted, by a conflict as a rule.
    Aborted = 10, 409;
    /// Past the valid range.
    OutOfRange = 11, 400;
    /// There is no such method or service.
    Unimplemented = 12, 404;
    /// An invariant is broken.
    Internal = 13, 500;
    /// The service is not there now; trying again may help.
    Unavailable = 14, 503;
    /// Data is lost or corrupted for good.
    DataLoss = 15, 500;
    /// The caller is not known.
    Unauthenticated = 16, 401;
}

impl Code {
    /// What `grpc-status` says; whatever is no known number is [`Code::Unknown`], as it is to clients.
    #[must_use]
    pub fn parse(value: &[u8]) -> Self {
        let number = match value {
            [digit @ b'0'..=b'9'] => digit - b'0',
            [b'1', digit @ b'0'..=b'6'] => 10 + (digit - b'0'),
            _ => 2,
        };
        Self::ALL[usize::from(number)]
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// What an HTTP status means to a gRPC client (gRPC's "HTTP to gRPC Status Code Mapping").
    #[must_use]
    pub const fn from_http(status: u16) -> Self {
        match status {
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            429 | 502..=504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }

    /// The code that ended a call, of the lines of its trailers (or of a head that is all there is), each with its CRLF.
    #[must_use]
    pub fn of_lines(lines: &[u8]) -> Option<Self> {
        let mut fields = crate::h2::fields(lines);
        fields
            .find(|(name, _)| name.eq_ignore_ascii_case(b"grpc-status"))
            .map(|(_, value)| Self::parse(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for (index, code) in Code::ALL.iter().enumerate() {
            assert_eq!(usize::from(code.number()), index);
            assert_eq!(Code::parse(index.to_string().as_bytes()), *code);
        }
        for odd in ["", "17", "20", "x", "1x", "00", "014", "-1", "255", "99999999999999999999"] {
            assert_eq!(Code::parse(odd.as_bytes()), Code::Unknown, "{odd}");
        }
    }

    #[test]
    fn the_published_mapping() {
        for (status, code) in [
            (400, Code::Internal),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (429, Code::Unavailable),
            (502, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::Unavailable),
            (500, Code::Unknown),
            (413, Code::Unknown),
            (301, Code::Unknown),
        ] {
            assert_eq!(Code::from_http(status), code, "{status}");
        }
    }

    #[test]
    fn of_trailers() {
        assert_eq!(
            Code::of_lines(b"x-a: 1\r\nGrpc-Status: 14\r\ngrpc-message: m\r\n"),
            Some(Code::Unavailable)
        );
        assert_eq!(Code::of_lines(b"grpc-message: grpc-status: 3\r\n"), None);
        assert_eq!(Code::of_lines(b""), None);
    }

    #[test]
    fn whose_fault_it_is() {
        let failures: Vec<_> = Code::ALL.iter().filter(|code| code.as_http() >= 500).collect();
        let expected =
            [Code::Unknown, Code::DeadlineExceeded, Code::Internal, Code::Unavailable, Code::DataLoss];
        assert_eq!(failures, expected.iter().collect::<Vec<_>>());
    }
}
