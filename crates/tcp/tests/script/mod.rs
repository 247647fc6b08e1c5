//! A connection whose peer is the test.
#![allow(dead_code, reason = "each test uses a part of it")]

use tcp::options::Options;
use tcp::{
    Config, Connection, Error, Events, Flags, Header, Identity, State, Transmit, Unreachable, Write,
};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
/// The script's peer begins here.
pub const PEER: u32 = 5000;
pub const ISN: u32 = 1000;

/// A connection whose peer is the test.
pub struct Script {
    pub connection: Connection,
    pub now: u64,
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
}

/// Settings without options, with segments of a thousand bytes.
pub fn plain() -> Config {
    Config {
        timestamps: false,
        window_scaling: false,
        sack: false,
        mss: 1000,
        most_payload: 1000,
        ..Config::default()
    }
}

impl Script {
    /// Before the peer has answered.
    pub fn connecting(config: &Config) -> Self {
        let identity = Identity {
            local: 1,
            peer: 2,
            isn: ISN,
            stamp_offset: 0,
        };
        let now = SECOND;
        let connection = Connection::connect(now, config, identity);
        let mut script = Script {
            connection,
            now,
            seq: PEER,
            ack: 0,
            window: 60_000,
        };
        assert_eq!(script.sends().flags, Flags::SYN);
        script.ack = ISN + 1;
        script
    }

    /// With an established connection, whose ACK is gone.
    pub fn open(config: &Config) -> Self {
        let mut script = Script::connecting(config);
        let options = Options {
            mss: Some(1000),
            ..Options::default()
        };
        script.gets(Flags::SYN | Flags::ACK, options, 0);
        script.seq += 1;
        assert_eq!(script.sends().flags, Flags::ACK);
        assert!(script.connection.take_events().contains(Events::CONNECTED));
        script
    }

    /// What begins its next segment.
    pub fn header(&self, flags: Flags) -> Header {
        Header {
            source: 2,
            destination: 1,
            seq: self.seq,
            ack: self.ack,
            flags,
            window: self.window,
            ..Header::default()
        }
    }

    pub fn gets(&mut self, flags: Flags, options: Options, payload: usize) {
        let header = Header {
            options,
            ..self.header(flags)
        };
        self.connection.on_segment(self.now, &header, payload);
    }

    /// A segment with its ACK, that takes the peer's numbers on.
    pub fn data(&mut self, payload: usize, more: Flags) {
        self.gets(Flags::ACK | more, Options::default(), payload);
        self.seq += payload as u32 + u32::from(more.contains(Flags::FIN));
    }

    pub fn sent(&mut self) -> Option<Transmit> {
        self.connection.transmit(self.now)
    }

    pub fn sends(&mut self) -> Header {
        self.sent().expect("a segment").header
    }

    pub fn quiet(&mut self) {
        assert_eq!(self.sent(), None);
    }

    /// Goes on to the next timer.
    pub fn waits(&mut self) {
        self.now = self.connection.next_timer().expect("a timer");
        self.connection.on_timer(self.now);
    }

    pub fn write(&mut self, length: u64) {
        self.connection
            .write(length, Write::default())
            .expect("it is open");
    }

    pub fn icmp(&mut self, seq: u32, what: Unreachable) {
        self.connection.on_icmp(self.now, seq, what);
    }

    pub fn ends_with(&mut self, error: Option<Error>) {
        assert_eq!(self.connection.state(), State::Closed);
        assert!(self.connection.take_events().contains(Events::CLOSED));
        assert_eq!(self.connection.take_error(), error);
        assert_eq!(self.connection.next_timer(), None);
    }
}

/// Which bytes of the stream go out now.
pub fn sent(script: &mut Script) -> Vec<(u64, u64)> {
    let transmits = std::iter::from_fn(|| script.sent());
    transmits
        .map(|sent| (sent.payload.start, sent.payload.end))
        .collect()
}
