//! One end: a connection with the program that uses it.

use super::Packet;
use super::path::Random;
use std::collections::BTreeMap;
use tcp::{Connection, Error, Events, Flags, Write};

/// The operations of the program.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many bytes it writes before it ends.
    pub send: u64,
    /// The send buffer.
    pub buffer: u64,
    /// The most that it writes and reads at once; 0 is everything.
    pub piece: u64,
    /// It reads only in so many of a million chances.
    pub reads: u64,
    /// Whether it closes when both directions have ended.
    pub closes: bool,
    /// Whether it ends after it has written.
    pub ends: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            send: 0,
            buffer: 4 << 20,
            piece: 0,
            reads: 1_000_000,
            closes: true,
            ends: true,
        }
    }
}

pub struct End {
    pub connection: Connection,
    pub plan: Plan,
    pub written: u64,
    pub released: u64,
    pub read: u64,
    /// The ranges that were placed and not read: start and end.
    placed: BTreeMap<u64, u64>,
    pub events: Events,
    pub error: Option<Error>,
    is_shut: bool,
    is_closed: bool,
    /// When the program looks again.
    looks_at: Option<u64>,
    pub most_out_of_order: u64,
    pub taken: u64,
}

impl End {
    pub fn new(connection: Connection) -> Self {
        End {
            connection,
            plan: Plan::default(),
            written: 0,
            released: 0,
            read: 0,
            placed: BTreeMap::new(),
            events: Events::empty(),
            error: None,
            is_shut: false,
            is_closed: false,
            looks_at: None,
            most_out_of_order: 0,
            taken: 0,
        }
    }

    pub fn next_wake(&self) -> Option<u64> {
        let timer = self.connection.next_timer();
        timer.into_iter().chain(self.looks_at).min()
    }

    pub fn take(&mut self, now: u64, packet: &Packet) {
        self.taken += 1;
        let length = (packet.payload.end - packet.payload.start) as usize;
        let received = self.connection.on_segment(now, &packet.header, length);
        if let Some(place) = received.placement {
            assert!(place.skip + place.length <= length);
            assert_eq!(
                place.at,
                packet.payload.start + place.skip as u64,
                "the right place"
            );
            self.place(place.at, place.at + place.length as u64);
        }
        let info = self.connection.info();
        self.most_out_of_order = self.most_out_of_order.max(info.out_of_order);
        assert!(info.out_of_order <= info.receive_buffer + (1 << 16));
        assert!(!packet.header.flags.contains(Flags::SYN) || received.placement.is_none());
    }

    fn place(&mut self, mut start: u64, mut end: u64) {
        let touching: Vec<u64> = self
            .placed
            .range(..=end)
            .filter(|(_, range_end)| **range_end >= start)
            .map(|(range_start, _)| *range_start)
            .collect();
        for range in touching {
            let range_end = self.placed.remove(&range).expect("it is there");
            (start, end) = (start.min(range), end.max(range_end));
        }
        self.placed.insert(start, end);
    }

    /// Writes, reads and ends as planned.
    pub fn act(&mut self, now: u64, random: &mut Random) {
        self.events |= self.connection.take_events();
        self.error = self.error.or(self.connection.take_error());
        let released = self.connection.released();
        assert!(self.released <= released && released <= self.written);
        self.released = released;
        if !self.events.contains(Events::CONNECTED) {
            return;
        }
        self.read_some(now, random);
        let room =
            (self.released + self.plan.buffer - self.written).min(self.plan.send - self.written);
        let length = if self.plan.piece > 0 {
            room.min(random.below(self.plan.piece) + 1)
        } else {
            room
        };
        if length > 0 && !self.is_shut && self.connection.write(length, Write::default()).is_ok() {
            self.written += length;
        }
        if self.plan.ends && self.written == self.plan.send && !self.is_shut {
            self.is_shut = true;
            let _ = self.connection.shutdown();
        }
        let all_read = self.connection.has_ended() && self.connection.readable() == 0;
        if self.plan.closes && self.is_shut && all_read && !self.is_closed {
            self.is_closed = true;
            self.connection.close(now);
        }
        let over = self.connection.is_over();
        let waits = self.connection.readable() > 0 || self.written < self.plan.send && !over;
        let slow = self.plan.piece > 0 || self.plan.reads < 1_000_000;
        self.looks_at = (waits && slow).then(|| now + 1_000_000 + random.below(20_000_000));
    }

    fn read_some(&mut self, now: u64, random: &mut Random) {
        let readable = self.connection.readable();
        if readable == 0 || !random.chance(self.plan.reads) {
            return;
        }
        let length = match self.plan.piece {
            0 => readable,
            piece => readable.min(random.below(4 * piece) + 1),
        };
        let (&start, &end) = self
            .placed
            .first_key_value()
            .expect("what is readable was placed");
        assert!(
            start <= self.read && self.read + length <= end,
            "what is readable was placed"
        );
        self.read += length;
        self.placed.remove(&start);
        if self.read < end {
            self.placed.insert(self.read, end);
        }
        self.connection.read(now, length);
    }
}
