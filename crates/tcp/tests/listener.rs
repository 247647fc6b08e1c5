//! Half open connections, SYN cookies and the queue of accept(2).

use std::net::SocketAddr;
use tcp::options::{Options, Timestamps};
use tcp::siphash::Key;
use tcp::{
    Accepted, Answer, Config, Connection, Events, Flags, Header, Identity, Listener, Secret, State,
    Tuple,
};

const SECOND: u64 = 1_000_000_000;

fn tuple(client: u16) -> Tuple {
    Tuple {
        local: SocketAddr::from(([10, 0, 0, 1], 80)),
        peer: SocketAddr::from(([10, 0, (client >> 8) as u8, 2], 1000 + client)),
    }
}

fn listener(backlog: usize, cookies: bool) -> Listener {
    Listener::new(&Config::default(), Secret(Key([1, 2])), backlog, cookies)
}

fn client(now: u64, number: u16) -> Connection {
    let identity = Identity {
        local: 1000 + number,
        peer: 80,
        isn: 77 + u32::from(number),
        stamp_offset: 5,
    };
    Connection::connect(now, &Config::default(), identity)
}

/// The listener's answer to the client's next segment.
fn next(listener: &mut Listener, now: u64, client: &mut Connection, number: u16) -> Answer {
    let transmit = client.transmit(now).expect("a segment");
    listener.on_segment(now, &tuple(number), &transmit.header, 0)
}

/// Opens a connection through the listener; returns both ends.
fn open(listener: &mut Listener, now: u64, number: u16) -> Option<(Connection, Connection)> {
    let mut client = client(now, number);
    let Answer::Send(answer) = next(listener, now, &mut client, number) else {
        return None;
    };
    assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
    client.on_segment(now + 1, &answer, 0);
    assert_eq!(client.state(), State::Established);
    let ack = client.transmit(now + 1).expect("an ACK").header;
    match listener.on_segment(now + 2, &tuple(number), &ack, 0) {
        Answer::Accept(accepted) => Some((client, made(&accepted, now + 2, &ack))),
        _ => None,
    }
}

fn made(accepted: &Accepted, now: u64, ack: &Header) -> Connection {
    let mut server = accepted.connection(now, &Config::default());
    server.on_segment(now, ack, 0);
    assert_eq!(server.state(), State::Established);
    assert!(server.take_events().has(Events::CONNECTED));
    server
}

#[test]
fn opens_and_carries_data() {
    let mut listener = listener(4, true);
    let (mut client, mut server) = open(&mut listener, SECOND, 1).expect("a connection");
    assert_eq!((listener.waiting(), listener.half_open()), (1, 0));
    assert_eq!(listener.next_timer(), None);
    client.write(100, Default::default()).expect("it is open");
    let data = client.transmit(2 * SECOND).expect("data");
    let placement = server.on_segment(2 * SECOND, &data.header, 100).placement;
    assert_eq!(
        placement.map(|place| (place.skip, place.length, place.at)),
        Some((0, 100, 0))
    );
    assert_eq!(server.readable(), 100);
    assert!(server.info().sack && server.info().timestamps && server.info().send_scale > 0);
}

#[test]
fn the_accept_queue_is_bounded() {
    let mut listener = listener(2, true);
    for number in 0..3 {
        assert!(open(&mut listener, SECOND, number).is_some());
    }
    // As on Linux the fourth finds the queue full, and its SYN is dropped.
    assert!(open(&mut listener, SECOND, 3).is_none());
    listener.taken();
    assert!(open(&mut listener, SECOND, 3).is_some());
}

#[test]
fn retransmits_and_gives_up() {
    let mut listener = listener(2, true);
    let mut client = client(SECOND, 1);
    assert!(matches!(
        next(&mut listener, SECOND, &mut client, 1),
        Answer::Send(_)
    ));
    let mut times = Vec::new();
    while let Some(due) = listener.next_timer() {
        while let Some((to, header)) = listener.due(due) {
            assert_eq!((to, header.flags), (tuple(1), Flags::SYN | Flags::ACK));
            times.push(due / SECOND);
        }
    }
    assert_eq!(times, [2, 4, 8, 16, 32]);
    assert_eq!(listener.half_open(), 0);
}

#[test]
fn a_flood_leaves_room_by_cookies() {
    let mut listener = listener(16, true);
    for number in 0..10_000 {
        let mut flood = client(SECOND, 2000 + number);
        assert!(matches!(
            next(&mut listener, SECOND, &mut flood, 2000 + number),
            Answer::Send(_)
        ));
    }
    assert_eq!(listener.half_open(), 16);
    let (mut client, server) = open(&mut listener, SECOND, 1).expect("a connection by a cookie");
    let info = server.info();
    assert!(info.sack && info.timestamps, "the options came back");
    assert_eq!(info.send_scale, client.info().send_scale);
    assert_eq!(info.send_mss, 1448);
    client.write(10, Default::default()).expect("it is open");
}

#[test]
fn cookies_are_not_guessed_and_age() {
    let mut listener = listener(0, true);
    let mut half = client(SECOND, 1);
    assert!(matches!(
        next(&mut listener, SECOND, &mut half, 1),
        Answer::Send(_)
    ));
    let mut second = client(SECOND, 2);
    let Answer::Send(answer) = next(&mut listener, SECOND, &mut second, 2) else {
        panic!()
    };
    second.on_segment(SECOND, &answer, 0);
    let ack = second.transmit(SECOND).expect("an ACK").header;
    for wrong in 1..1000u32 {
        let guess = Header {
            ack: ack.ack.wrapping_add(wrong << 4),
            ..ack
        };
        let answer = listener.on_segment(SECOND, &tuple(2), &guess, 0);
        assert!(matches!(answer, Answer::Send(reset) if reset.flags.has(Flags::RST)));
    }
    let late = listener.on_segment(150 * SECOND, &tuple(2), &ack, 0);
    assert!(matches!(late, Answer::Send(reset) if reset.flags.has(Flags::RST)));
    assert!(matches!(
        listener.on_segment(90 * SECOND, &tuple(2), &ack, 0),
        Answer::Accept(_)
    ));
}

#[test]
fn without_cookies_a_full_backlog_drops() {
    let mut listener = listener(1, false);
    let mut first = client(SECOND, 1);
    assert!(matches!(
        next(&mut listener, SECOND, &mut first, 1),
        Answer::Send(_)
    ));
    let mut second = client(SECOND, 2);
    assert!(matches!(
        next(&mut listener, SECOND, &mut second, 2),
        Answer::None
    ));
}

#[test]
fn resets_of_half_open_connections() {
    let mut listener = listener(4, true);
    let mut client = client(SECOND, 1);
    let syn = client.transmit(SECOND).expect("a SYN").header;
    assert!(matches!(
        listener.on_segment(SECOND, &tuple(1), &syn, 0),
        Answer::Send(_)
    ));
    let reset = |seq| Header {
        seq,
        flags: Flags::RST,
        options: Options {
            timestamps: Some(Timestamps { value: 0, echo: 0 }),
            ..Options::default()
        },
        ..syn
    };
    listener.on_segment(SECOND, &tuple(1), &reset(syn.seq.wrapping_add(9)), 0);
    assert_eq!(listener.half_open(), 1);
    listener.on_segment(SECOND, &tuple(1), &reset(syn.seq.wrapping_add(1)), 0);
    assert_eq!((listener.half_open(), listener.next_timer()), (0, None));
}
