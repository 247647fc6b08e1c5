//! The scoreboard compared with a state for each byte.

use proptest::prelude::*;
use tcp::scoreboard::{Full, MOST, NEVER, Scoreboard, State};

/// One step: which, and two numbers.
fn steps() -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
    proptest::collection::vec((0u8..6, 0u64..400, 1u64..120), 1..100)
}

fn check(board: &Scoreboard, una: u64, nxt: u64) {
    let mut at = una;
    let mut sums = [0; 3];
    for record in board.iter() {
        assert_eq!(record.start, at, "no gap");
        assert!(record.start < record.end);
        sums[record.state as usize] += record.end - record.start;
        at = record.end;
    }
    assert_eq!(at, nxt);
    assert_eq!(sums, [board.in_flight(), board.lost(), board.sacked()]);
}

proptest! {
    #[test]
    fn sums_and_order(steps in steps()) {
        let mut board = Scoreboard::default();
        let (mut una, mut nxt) = (1000u64, 1000u64);
        for (now, (kind, from, length)) in steps.into_iter().enumerate() {
            let now = now as u64;
            match kind {
                0 => {
                    board.push(nxt, nxt + length, now).expect("room");
                    nxt += length;
                }
                1 => {
                    una = (una + from / 4).min(nxt);
                    board.acknowledge(una, |part| assert_ne!(part.state, State::Sacked));
                }
                2 => {
                    let start = (una + from).min(nxt);
                    let end = (start + length).min(nxt);
                    let before = board.sacked();
                    let mut seen = 0;
                    board.sack(start, end, 10, |part| {
                        assert!(part.start >= start && part.end <= end);
                        seen += part.end - part.start;
                    });
                    assert_eq!(board.sacked(), before + seen);
                }
                3 => {
                    board.lose_older((from, 0), u64::MAX);
                    assert!(board.oldest() >= (from, 0));
                }
                4 => {
                    if let Some((start, end)) = board.retransmit_lost(length, now) {
                        assert!(end - start <= length);
                    }
                }
                _ => {
                    board.retransmit_last(length, now);
                }
            }
            check(&board, una, nxt);
        }
    }
}

#[test]
fn sack_counts_whole_segments() {
    let mut board = Scoreboard::default();
    board.push(0, 100, 0).expect("room");
    board.sack(15, 48, 10, |_| ());
    assert_eq!(board.sacked(), 20);
    board.sack(48, 100, 10, |_| ());
    assert_eq!(board.sacked(), 70);
    assert_eq!(board.iter().count(), 4);
    board.sack(0, 100, 10, |_| ());
    assert_eq!(board.iter().count(), 1);
}

/// Blocks that a peer chooses fill the board, and nothing that is lost is stuck by it.
#[test]
fn a_full_board_goes_on() {
    let mut board = Scoreboard::default();
    let most = MOST as u64;
    for record in 0..most {
        board
            .push(100 * record, 100 * (record + 1), record)
            .expect("room");
    }
    assert_eq!(board.push(100 * most, 100 * most + 1, most), Err(Full));
    board.sack(110, 120, 10, |_| ());
    assert_eq!(board.sacked(), 0, "there is no room to cut a record");
    board.lose_older(NEVER, u64::MAX);
    for piece in 0..20 {
        let sent = board.retransmit_lost(10, most + piece);
        assert_eq!(sent, Some((10 * piece, 10 * piece + 10)));
    }
    assert_eq!(board.in_flight(), 200);
}

/// An acknowledgment does not look at all records, of which a peer chooses the number: this would
/// take minutes.
#[test]
fn no_step_looks_at_all_records() {
    let mut board = Scoreboard::default();
    let most = MOST as u64;
    for record in 0..most {
        board
            .push(10 * record, 10 * record + 10, record)
            .expect("room");
    }
    // Each is sent again, and lost again, in its turn.
    for round in 0..200_000 {
        board.sack(10 * (most - 1), 10 * most, 10, |_| ());
        assert_eq!(board.lose_older((round, u64::MAX), round), 10);
        let again = board.retransmit_lost(10, most - 1 + round);
        assert_eq!(again.map(|range| range.0), Some(10 * (round % (most - 1))));
    }
}
