//! Half open connections, SYN cookies and the queue of accept(2).

use proptest::prelude::*;
use std::net::SocketAddr;
use tcp::options::{Options, Timestamps};
use tcp::siphash::Key;
use tcp::{
    Accepted, Answer, Config, Connection, Cookies, Events, Flags, Header, Identity, Listener,
    Secret, State, Tuple,
};

const SECOND: u64 = 1_000_000_000;

fn tuple(client: u16) -> Tuple {
    Tuple {
        local: SocketAddr::from(([10, 0, 0, 1], 80)),
        peer: SocketAddr::from(([10, 0, (client >> 8) as u8, 2], 1000 + client)),
    }
}

fn policy(cookies: bool) -> Cookies {
    if cookies {
        Cookies::WhenFull
    } else {
        Cookies::Never
    }
}

fn listener(backlog: usize, cookies: bool) -> Listener {
    Listener::new(
        &Config::default(),
        Secret(Key([1, 2])),
        backlog,
        policy(cookies),
    )
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
    assert!(server.take_events().contains(Events::CONNECTED));
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
        assert!(matches!(answer, Answer::Send(reset) if reset.flags.contains(Flags::RST)));
    }
    let late = listener.on_segment(150 * SECOND, &tuple(2), &ack, 0);
    assert!(matches!(late, Answer::Send(reset) if reset.flags.contains(Flags::RST)));
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

/// The header of a client's ACK, made from its SYN and the answer.
fn ack_of(syn: &Header, answer: &Header) -> Header {
    Header {
        seq: syn.seq.wrapping_add(1),
        ack: answer.seq.wrapping_add(1),
        flags: Flags::ACK,
        options: Options {
            timestamps: syn.options.timestamps,
            ..Options::default()
        },
        ..*syn
    }
}

/// A SYN of a client and the listener's answer to it.
fn half_open(listener: &mut Listener, now: u64, number: u16) -> (Header, Header) {
    let syn = client(now, number).transmit(now).expect("a SYN").header;
    let answer = listener.on_segment(now, &tuple(number), &syn, 0);
    let Answer::Send(answer) = answer else {
        panic!("no answer")
    };
    (syn, answer)
}

fn is_sent(answer: &Answer) -> bool {
    matches!(answer, Answer::Send(_))
}

/// A SYN that comes again and segments from elsewhere are answered twice a second, so that there is
/// no amplifier and no loop (Linux's tcp_oow_rate_limited).
#[test]
fn half_open_connections_answer_rarely() {
    let mut listener = listener(4, true);
    let (syn, answer) = half_open(&mut listener, SECOND, 1);
    let far = Header {
        seq: syn.seq.wrapping_add(1 << 30),
        ..ack_of(&syn, &answer)
    };
    let again = Header {
        seq: syn.seq.wrapping_add(100),
        ..syn
    };
    for (round, header) in (1..).zip([syn, far, again]) {
        let mut answers = 0;
        for at in 0..100 {
            let now = 10 * round * SECOND + at * SECOND / 100;
            answers += u32::from(is_sent(&listener.on_segment(now, &tuple(1), &header, 0)));
        }
        assert!((1..=2).contains(&answers), "{answers} of {header:?}");
        assert_eq!(listener.half_open(), 1);
    }
    // What has data is answered always, and what acknowledges something else is reset.
    for _ in 0..3 {
        assert!(is_sent(&listener.on_segment(SECOND, &tuple(1), &far, 10)));
    }
    let wrong = Header {
        ack: answer.seq,
        ..far
    };
    let reset = listener.on_segment(SECOND, &tuple(1), &wrong, 0);
    assert!(matches!(reset, Answer::Send(reset) if reset.flags.contains(Flags::RST)));
}

/// The timer begins anew where a SYN that came again was answered.
#[test]
fn a_syn_again_moves_the_timer() {
    let mut listener = listener(4, true);
    let (syn, _) = half_open(&mut listener, SECOND, 1);
    let now = SECOND + SECOND / 2;
    assert!(is_sent(&listener.on_segment(now, &tuple(1), &syn, 0)));
    assert_eq!(listener.next_timer(), Some(now + SECOND));
}

#[test]
fn a_syn_with_fin_opens_nothing() {
    let mut listener = listener(4, true);
    let syn = client(SECOND, 1).transmit(SECOND).expect("a SYN").header;
    let both = Header {
        flags: Flags::SYN | Flags::FIN,
        ..syn
    };
    let answer = listener.on_segment(SECOND, &tuple(1), &both, 0);
    assert!(matches!(answer, Answer::None));
    assert_eq!(listener.half_open(), 0);
}

/// An ACK from before the SYN, by its timestamp, opens nothing.
#[test]
fn an_old_ack_opens_nothing() {
    let mut listener = listener(4, true);
    let (syn, answer) = half_open(&mut listener, SECOND, 1);
    let mut ack = ack_of(&syn, &answer);
    let stamps = ack.options.timestamps.as_mut().expect("timestamps");
    stamps.value = stamps.value.wrapping_sub(10);
    let answered = listener.on_segment(SECOND, &tuple(1), &ack, 0);
    assert!(matches!(answered, Answer::Send(ack) if ack.flags == Flags::ACK));
    assert_eq!(listener.half_open(), 1);
}

/// TCP_DEFER_ACCEPT: the ACK waits for data, but for the last timeout, which it may answer.
#[test]
fn accepts_with_data() {
    let config = Config {
        defer_accept: tcp::retransmissions_of(3),
        ..Config::default()
    };
    let listener = || Listener::new(&config, Secret(Key([1, 2])), 4, Cookies::WhenFull);
    let mut first = listener();
    let (syn, answer) = half_open(&mut first, SECOND, 1);
    let ack = ack_of(&syn, &answer);
    let take = |listener: &mut Listener, now, payload| {
        matches!(
            listener.on_segment(now, &tuple(1), &ack, payload),
            Answer::Accept(_)
        )
    };
    assert!(!take(&mut first, SECOND, 0));
    assert!(take(&mut first, SECOND, 10));

    let mut second = listener();
    half_open(&mut second, SECOND, 1);
    assert!(!take(&mut second, SECOND, 0));
    // Nothing is sent again while it waits, but at the end.
    assert!(second.due(2 * SECOND).is_none());
    assert!(!take(&mut second, 3 * SECOND, 0));
    assert!(second.due(4 * SECOND).is_some());
    assert!(take(&mut second, 4 * SECOND, 0));
}

/// The connection in TIME_WAIT has said with which number the next begins.
#[test]
fn reopens_beyond_the_old_numbers() {
    let mut listener = listener(1, true);
    half_open(&mut listener, SECOND, 1);
    let syn = client(SECOND, 2).transmit(SECOND).expect("a SYN").header;
    let answer = listener.on_reopening(SECOND, &tuple(2), &syn, 77_777);
    let Answer::Send(answer) = answer else {
        panic!("no answer")
    };
    assert_eq!(answer.seq, 77_777);
    let ack = ack_of(&syn, &answer);
    let accepted = listener.on_segment(SECOND, &tuple(2), &ack, 0);
    assert!(matches!(accepted, Answer::Accept(_)));
}

/// The round trip of the handshake is a sample, and a bad path begins with a window of a segment.
#[test]
fn the_handshake_measures_the_path() {
    let mut listener = listener(4, true);
    let (syn, answer) = half_open(&mut listener, SECOND, 1);
    let ack = ack_of(&syn, &answer);
    let now = SECOND + SECOND / 20;
    let Answer::Accept(accepted) = listener.on_segment(now, &tuple(1), &ack, 0) else {
        panic!("no connection")
    };
    let info = made(&accepted, now, &ack).info();
    assert_eq!(info.rtt, SECOND / 20);
    assert_eq!(info.congestion_window, 10 * u64::from(info.send_mss));

    half_open(&mut listener, SECOND, 1);
    listener.due(2 * SECOND).expect("a second answer");
    listener.due(4 * SECOND).expect("a third answer");
    let Answer::Accept(accepted) = listener.on_segment(5 * SECOND, &tuple(1), &ack, 0) else {
        panic!("no connection")
    };
    let info = made(&accepted, 5 * SECOND, &ack).info();
    assert_eq!(info.congestion_window, u64::from(info.send_mss));
}

/// Those that do not go on leave the backlog sooner the fuller it is.
#[test]
fn old_requests_make_room() {
    let mut listener = listener(64, false);
    for number in 0..60 {
        half_open(&mut listener, SECOND, number);
    }
    let mut sent = 0;
    while let Some(due) = listener.next_timer() {
        sent += std::iter::from_fn(|| listener.due(due)).count();
    }
    assert!(sent < 4 * 60, "{sent}");
    assert_eq!(listener.half_open(), 0);
}

/// ICMP ends what is half open where the host is gone, if it is of our answer.
#[test]
fn icmp_forgets_half_open_connections() {
    let mut listener = listener(4, true);
    let (_, answer) = half_open(&mut listener, SECOND, 1);
    listener.on_icmp(&tuple(1), answer.seq.wrapping_add(1));
    assert_eq!(listener.half_open(), 1);
    listener.on_icmp(&tuple(1), answer.seq);
    assert_eq!((listener.half_open(), listener.next_timer()), (0, None));
}

proptest! {
    /// Whatever comes for a listener: nothing panics, its timers are those of its half open
    /// connections, and these are no more than the backlog lets be.
    #[test]
    fn anything_may_come(
        steps in proptest::collection::vec(
            (0u8..12, 0u16..6, -2i32..3, -2i32..3, any::<u8>(), 0usize..3), 1..200),
        cookies in any::<bool>(),
        defer_accept in 0u8..4,
    ) {
        let config = Config { defer_accept, ..Config::default() };
        let mut listener = Listener::new(&config, Secret(Key([1, 2])), 3, policy(cookies));
        let mut now = SECOND;
        let mut answers = [Header::default(); 6];
        let mut accepted = 0;
        for (kind, number, seq, ack, flags, payload) in steps {
            let syn = client(SECOND, number).transmit(SECOND).expect("a SYN").header;
            let at = usize::from(number);
            let header = match kind {
                0..=3 => syn,
                4..=6 => ack_of(&syn, &answers[at]),
                7..=8 => Header {
                    seq: syn.seq.wrapping_add_signed(seq),
                    ack: answers[at].seq.wrapping_add_signed(ack),
                    flags: Flags::from_bits_retain(flags),
                    ..syn
                },
                9 => {
                    listener.on_icmp(&tuple(number), answers[at].seq);
                    continue;
                }
                10 => {
                    now += SECOND / 3;
                    listener.taken();
                    continue;
                }
                _ => {
                    now = listener.next_timer().unwrap_or(now).max(now);
                    while let Some((to, again)) = listener.due(now) {
                        prop_assert_eq!(to.local.port(), again.source);
                    }
                    prop_assert!(listener.next_timer().is_none_or(|due| due > now));
                    continue;
                }
            };
            match listener.on_segment(now, &tuple(number), &header, payload) {
                Answer::None => {}
                Answer::Send(answer) if answer.flags == Flags::SYN | Flags::ACK => {
                    answers[at] = answer;
                }
                Answer::Send(_) => {}
                Answer::Accept(made) => {
                    accepted += 1;
                    let mut server = made.connection(now, &config);
                    server.on_segment(now, &header, payload);
                    while server.transmit(now).is_some() {}
                }
            }
            prop_assert!(listener.half_open() <= 3);
            prop_assert!(listener.waiting() <= accepted.min(4));
        }
        // Left alone, what is half open is forgotten.
        while let Some(due) = listener.next_timer() {
            while listener.due(due).is_some() {}
        }
        prop_assert_eq!(listener.half_open(), 0);
    }
}

#[test]
fn cookies_without_need() {
    let config = Config::default();
    let secret = Secret(Key([1, 2]));
    let mut listener = Listener::new(&config, secret, 4, Cookies::Always);
    assert!(open(&mut listener, SECOND, 1).is_some());
    half_open(&mut listener, SECOND, 2);
    assert_eq!((listener.half_open(), listener.next_timer()), (0, None));
}

/// What finds no room waits for it, or is reset where the administrator says so.
#[test]
fn an_overflow_waits_or_is_reset() {
    for abort_on_overflow in [false, true] {
        let config = Config {
            abort_on_overflow,
            ..Config::default()
        };
        let secret = Secret(Key([1, 2]));
        let mut listener = Listener::new(&config, secret, 1, Cookies::Never);
        let (syn, answer) = half_open(&mut listener, SECOND, 1);
        for number in 2..4 {
            listener.set_backlog(9);
            open(&mut listener, SECOND, number).expect("a connection");
        }
        listener.set_backlog(1);
        let answer = listener.on_segment(SECOND, &tuple(1), &ack_of(&syn, &answer), 0);
        assert_eq!(is_sent(&answer), abort_on_overflow);
        assert_eq!(listener.half_open(), usize::from(!abort_on_overflow));
    }
}

/// A connection that is given up before its ACK has come is reset where the peer expects it.
#[test]
fn a_reset_before_the_ack() {
    let mut listener = listener(4, true);
    let mut syn = client(SECOND, 1).transmit(SECOND).expect("a SYN").header;
    syn.options.window_scale = None;
    let Answer::Send(answer) = listener.on_segment(SECOND, &tuple(1), &syn, 0) else {
        panic!("no answer")
    };
    let ack = ack_of(&syn, &answer);
    let Answer::Accept(accepted) = listener.on_segment(SECOND, &tuple(1), &ack, 0) else {
        panic!("no connection")
    };
    let mut server = accepted.connection(SECOND, &Config::default());
    server.abort();
    let reset = server.transmit(SECOND).expect("a reset").header;
    assert!(reset.flags.contains(Flags::RST));
    assert_eq!(reset.seq, answer.seq.wrapping_add(1));
}

/// What waits for data outlives the retransmissions that it would have without its ACK.
#[test]
fn a_deferral_outlives_retransmissions() {
    let config = Config {
        defer_accept: 3,
        synack_retries: 1,
        ..Config::default()
    };
    let secret = Secret(Key([1, 2]));
    let mut listener = Listener::new(&config, secret, 4, Cookies::Never);
    let (syn, answer) = half_open(&mut listener, SECOND, 1);
    listener.on_segment(SECOND, &tuple(1), &ack_of(&syn, &answer), 0);
    let mut sent = Vec::new();
    while let Some(due) = listener.next_timer() {
        sent.extend(listener.due(due).map(|_| due / SECOND));
    }
    assert_eq!(sent, [8]);
}

/// Another CPU's clock is behind, and the program's time is longer than any clock.
#[test]
fn odd_times_break_nothing() {
    let config = Config {
        user_timeout: u64::MAX,
        fin_timeout: u64::MAX,
        receive_buffer: u64::MAX,
        ..Config::default()
    };
    let mut listener = listener(4, true);
    let (syn, answer) = half_open(&mut listener, SECOND, 1);
    let ack = ack_of(&syn, &answer);
    let Answer::Accept(accepted) = listener.on_segment(SECOND / 2, &tuple(1), &ack, 0) else {
        panic!("no connection")
    };
    let mut server = accepted.connection(SECOND / 2, &config);
    server.on_timer(SECOND / 2 + 1);
    server.on_segment(SECOND / 2, &ack, 0);
    assert_eq!(server.state(), State::Established);
    server.write(10, Default::default()).expect("it is open");
    server.close(SECOND / 2);
    while server.transmit(SECOND / 2).is_some() {}
    for _ in 0..20 {
        let due = server.next_timer().expect("a timer");
        server.on_timer(due);
        while server.transmit(due).is_some() {}
    }
    // To connect for ever is to try for as long as there are retries.
    let identity = accepted.identity;
    let mut client = Connection::connect(SECOND, &config, identity);
    while client.state() != State::Closed {
        while client
            .transmit(client.next_timer().unwrap_or(SECOND))
            .is_some()
        {}
        client.on_timer(client.next_timer().expect("a timer"));
    }
}
