//! How a clock advances after its rate, an offset or the time was set.

use ntp::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

/// CLOCK_REALTIME less what it would show at its nominal rate, in ns, at `now`.
fn gained(ntp: &mut Ntp, now: u64) -> i64 {
    let before = ntp.offset();
    advance(ntp, now);
    ntp.offset() - before
}

/// Moves it as often as it wants to be moved.
fn advance(ntp: &mut Ntp, now: u64) {
    let mut at = now - now % SECOND;
    while at < now {
        at = ntp.next().map_or(now, |ns| (at + ns).min(now));
        ntp.advance(at);
    }
    settle(ntp, now);
}

/// Brings in what was put off.
fn settle(ntp: &mut Ntp, now: u64) {
    ntp.advance(now);
    let mut before = ntp.offset() + 1;
    while before != ntp.offset() {
        before = ntp.offset();
        ntp.advance(now);
    }
}

/// One that keeps phase, in ns, whose clock shows `second`.
fn locked(second: i64) -> Ntp {
    let mut ntp = Ntp::new();
    ntp.set(0, second * SECOND as i64);
    ntp.change(&Change {
        status: Some(STA_PLL),
        nano: Some(true),
        constant: Some(0),
        ..Change::default()
    });
    ntp
}

fn at_rate(tick: i64, frequency: i64) -> Ntp {
    let mut ntp = Ntp::new();
    ntp.change(&Change {
        tick: Some(tick),
        frequency: Some(frequency),
        ..Change::default()
    });
    ntp
}

#[test]
fn a_nominal_clock_wants_nothing() {
    let mut ntp = Ntp::new();
    assert_eq!(ntp.next(), None);
    ntp.set(5, 1_700_000_000 * SECOND as i64);
    ntp.advance(u64::MAX / 2);
    assert_eq!(ntp.offset(), 1_700_000_000 * SECOND as i64);
    assert_eq!(ntp.next(), None);
    assert_eq!(ntp.fastest(), 0);
}

#[test]
fn a_frequency_is_in_parts_of_a_millionth() {
    for (frequency, ns) in [
        (1 << 16, 1000),
        (-1 << 16, -1000),
        (500 << 16, 500_000),
        (-500 << 16, -500_000),
        (i64::MAX, 500_000),
        (i64::MIN, -500_000),
        (0, 0),
    ] {
        let mut ntp = at_rate(10_000, frequency);
        settle(&mut ntp, SECOND);
        assert_eq!(ntp.offset(), ns, "{frequency}");
        settle(&mut ntp, 1_000_000 * SECOND);
        assert_eq!(ntp.offset(), ns * 1_000_000, "{frequency}");
    }
    // 2^-16 millionths of a day are 1318.359... ns.
    let mut ntp = at_rate(10_000, 1);
    settle(&mut ntp, 86_400 * SECOND);
    assert_eq!(ntp.offset(), 1318);
    let mut ntp = at_rate(10_000, -1);
    settle(&mut ntp, 86_400 * SECOND);
    assert_eq!(ntp.offset(), -1319);
}

#[test]
fn a_tick_is_a_hundredth_of_a_second() {
    for tick in [9_000, 9_999, 10_000, 10_001, 11_000] {
        let mut ntp = at_rate(tick, 0);
        let thirty_years = 30 * 365 * 86_400;
        assert_eq!(gained(&mut ntp, 10 * SECOND), (tick - 10_000) * 1_000_000);
        settle(&mut ntp, 10 * SECOND);
        let before = ntp.offset();
        ntp.advance((10 + thirty_years as u64) * SECOND);
        if tick >= 10_000 {
            let gain = (tick - 10_000) * 100_000 * thirty_years;
            assert_eq!(ntp.offset() - before, gain);
        }
    }
}

#[test]
fn both_rates_add_up_and_are_undone() {
    let mut ntp = at_rate(11_000, 500 << 16);
    assert_eq!(gained(&mut ntp, SECOND), 100_500_000);
    ntp.change(&Change {
        tick: Some(9_000),
        frequency: Some(-500 << 16),
        ..Change::default()
    });
    assert_eq!(gained(&mut ntp, 2 * SECOND), -100_500_000);
    assert_eq!(ntp.offset(), 0);
    // A tick and a frequency that cancel each other.
    ntp.change(&Change {
        tick: Some(10_001),
        frequency: Some(-100 << 16),
        ..Change::default()
    });
    assert_eq!((ntp.next(), ntp.fastest()), (None, 0));
    ntp.change(&Change {
        tick: Some(10_000),
        frequency: Some(0),
        ..Change::default()
    });
    assert_eq!(ntp.next(), None);
}

#[test]
fn adjtime_makes_up_500_us_a_second() {
    for sign in [1, -1] {
        let mut ntp = Ntp::new();
        ntp.advance(SECOND / 2);
        ntp.set_single(sign * 1_700);
        settle(&mut ntp, SECOND - 1);
        assert_eq!(ntp.offset(), 0, "from the next second on");
        let mut left = 1_700;
        for second in 1..=4 {
            settle(&mut ntp, second * SECOND + SECOND / 4);
            left = 0.max(left - 500);
            assert_eq!(ntp.single(), sign * left);
        }
        settle(&mut ntp, 10 * SECOND);
        // A second of a faster clock is shorter, by 500 millionths.
        assert!((ntp.offset() - sign * 1_700_000).abs() < 900);
        assert_eq!(ntp.next(), None);
    }
}

#[test]
fn a_phase_is_taken_off_by_parts() {
    for phase in [1 << 20, -1 << 20] {
        let mut ntp = locked(0);
        ntp.change(&Change {
            status: Some(STA_PLL | STA_FREQHOLD),
            ..Change::default()
        });
        ntp.change(&Change {
            offset: Some(phase),
            ..Change::default()
        });
        assert_eq!(ntp.readout().frequency, 0);
        let mut left = phase;
        for second in 1..=8 {
            settle(&mut ntp, second * SECOND + SECOND / 2);
            // A quarter, of which half a second passed.
            let part = left / 4;
            left -= part;
            assert!((ntp.readout().offset - left).abs() <= 1, "{left}");
            assert!((ntp.offset() - (phase - left - part / 2)).abs() <= 200);
        }
        settle(&mut ntp, 1000 * SECOND);
        assert!((ntp.offset() - phase).abs() <= 200, "{}", ntp.offset());
        assert_eq!(ntp.next(), None);
    }
}

#[test]
fn without_the_loop_there_is_no_phase() {
    let mut ntp = Ntp::new();
    ntp.change(&Change {
        offset: Some(1000),
        ..Change::default()
    });
    assert_eq!((ntp.readout().offset, ntp.next()), (0, None));
}

/// `seconds` after the loop was closed, the frequency that it learns from `offset` ns, as a program
/// reads it.
fn learnt(seconds: u64, constant: i64, status: u32, offset: i64) -> (i64, u32) {
    let mut ntp = locked(1_700_000_000);
    ntp.change(&Change {
        status: Some(status),
        constant: Some(constant),
        ..Change::default()
    });
    ntp.advance(seconds * SECOND);
    ntp.change(&Change {
        offset: Some(offset),
        ..Change::default()
    });
    (ntp.readout().frequency, ntp.readout().status & STA_MODE)
}

#[test]
fn the_frequency_learns_from_offsets() {
    // offset * seconds / 16 / 16 ns in a second, which are 2^-16 millionths times 65.536.
    assert_eq!(learnt(4, 0, STA_PLL, 64_000), (65_536, 0));
    assert_eq!(learnt(4, 0, STA_PLL, -64_000), (-65_536, 0));
    // No more than eight seconds count with this constant.
    assert_eq!(learnt(8, 0, STA_PLL, 32_000), (65_536, 0));
    assert_eq!(learnt(100, 0, STA_PLL, 32_000), (65_536, 0));
    // A quarter of the offset over the time, on long intervals.
    assert_eq!(learnt(1000, 10, STA_PLL, 400_000).1, 0);
    let (frequency, mode) = learnt(1000, 10, STA_PLL | STA_FLL, 4_000_000);
    let by_phase = 4_000_000.0 * 1000.0 / (1u64 << 28) as f64 * 65.536;
    assert!((frequency as f64 - 65_536.0 - by_phase).abs() < 2.0);
    assert_eq!(mode, STA_MODE);
    assert_eq!(learnt(2049, 10, STA_PLL, 1).1, STA_MODE);
    assert_eq!(learnt(255, 10, STA_PLL | STA_FLL, 1).1, 0);
    // Not where it is held.
    assert_eq!(learnt(1000, 0, STA_PLL | STA_FREQHOLD, 500_000_000), (0, 0));
    // And not beyond 500 millionths.
    assert_eq!(learnt(8, 0, STA_PLL, i64::MAX).0, 500 << 16);
    assert_eq!(learnt(8, 0, STA_PLL, i64::MIN).0, -500 << 16);
}

#[test]
fn a_clock_that_was_set_back_learns_no_nonsense() {
    for seconds in [0, 1, 4_000_000_000, 9_000_000_000] {
        let mut ntp = locked(4_000_000_000);
        ntp.advance(SECOND);
        ntp.set(SECOND, seconds * SECOND as i64);
        ntp.change(&Change {
            offset: Some(i64::MAX),
            ..Change::default()
        });
        assert!(ntp.readout().frequency.abs() <= 500 << 16);
    }
}

#[test]
fn a_step_voids_what_was_to_be_made_up_for() {
    let mut ntp = locked(100);
    ntp.change(&Change {
        status: Some(STA_PLL),
        max_error: Some(0),
        estimated_error: Some(0),
        frequency: Some(1 << 16),
        ..Change::default()
    });
    assert!(!ntp.readout().is_wrong());
    ntp.change(&Change {
        offset: Some(1_000_000),
        ..Change::default()
    });
    ntp.set_single(i64::MAX);
    ntp.advance(3 * SECOND + 7);
    ntp.set(4 * SECOND, 1_000 * SECOND as i64);
    let readout = ntp.readout();
    assert_eq!((readout.offset, ntp.single()), (0, 0));
    assert_eq!(
        (readout.max_error, readout.estimated_error),
        (16_000_000, 16_000_000)
    );
    assert_eq!(
        readout.status & (STA_UNSYNC | STA_PLL),
        STA_UNSYNC | STA_PLL
    );
    assert_eq!(ntp.offset(), 1_000 * SECOND as i64);
    let rate = ntp.readout().frequency;
    settle(&mut ntp, 1_004 * SECOND);
    let gained = ntp.offset() - 1_000 * SECOND as i64;
    assert!(
        (gained - rate * 1_000_000 / 65_536).abs() < 20_000,
        "{gained}"
    );
}

#[test]
fn errors_grow_until_nobody_keeps_the_time() {
    for frequency in [0, 1 << 16] {
        let mut ntp = locked(1);
        ntp.change(&Change {
            status: Some(STA_PLL),
            max_error: Some(1_000),
            frequency: Some(frequency),
            ..Change::default()
        });
        ntp.advance(SECOND - SECOND / 1000);
        assert_eq!(ntp.readout().max_error, 1_000);
        ntp.advance(2 * SECOND);
        assert_eq!(ntp.readout().max_error, 2_000);
        ntp.advance(31_998 * SECOND);
        assert_eq!(ntp.readout().max_error, 16_000_000);
        assert!(!ntp.readout().is_wrong());
        ntp.advance(31_999 * SECOND);
        assert_eq!(ntp.readout().max_error, 16_000_000);
        assert!(ntp.readout().is_wrong());
        ntp.advance(u64::MAX / 4);
        assert_eq!(ntp.readout().max_error, 16_000_000);
    }
}

#[test]
fn the_loop_that_ends_takes_its_units_with_it() {
    let mut ntp = locked(0);
    assert_eq!(ntp.readout().status, STA_PLL | STA_NANO);
    ntp.change(&Change {
        status: Some(0),
        ..Change::default()
    });
    assert_eq!(ntp.readout().status, 0);
    ntp.change(&Change {
        status: Some(u32::MAX),
        ..Change::default()
    });
    assert_eq!(ntp.readout().status, !0xff00);
}

#[test]
fn a_slow_clock_goes_back_by_a_little_at_once() {
    let mut ntp = at_rate(9_000, -500 << 16);
    for ms in 1..=5_000 {
        let before = ntp.offset();
        ntp.advance(ms * SHORTEST);
        assert!((-100_501..0).contains(&(ntp.offset() - before)));
    }
    // Nobody moved it for ten seconds.
    let now = 15 * SECOND;
    let mut moves = 0;
    while ntp.offset() > -15 * 100_500_000 {
        let before = ntp.offset();
        ntp.advance(now);
        assert!(before - ntp.offset() <= MOST_BACK);
        assert!(ntp.offset() == -15 * 100_500_000 || ntp.next() == Some(SHORTEST));
        moves += 1;
    }
    assert_eq!(moves, 1_005_000_000 / MOST_BACK);
}

#[test]
fn deadlines_are_those_of_the_rate() {
    assert_eq!(unslewed(SECOND, 0), SECOND);
    assert_eq!(unslewed(u64::MAX, 0), u64::MAX);
    let fast = at_rate(11_000, 0).fastest();
    assert_eq!(unslewed(11 * SECOND, fast), 10 * SECOND);
    let slow = at_rate(9_000, 0).fastest();
    assert_eq!(unslewed(9 * SECOND, slow), 10 * SECOND);
    assert_eq!(unslewed(u64::MAX, slow), u64::MAX);
    assert_eq!(unslewed(0, slow), 0);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Advance(u64),
    Set(i64),
    Single(i64),
    Change(Change),
}

fn any_offset() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(0),
        -2_000i64..2_000,
        -1_000_000_000i64..1_000_000_000,
        any::<i64>()
    ]
}

fn any_change() -> impl Strategy<Value = Change> {
    use proptest::option::of;
    let first = (
        of(any::<u32>()),
        of(any::<bool>()),
        of(any_offset()),
        of(any_offset()),
    );
    let rest = (
        of(-1i64..12),
        of(any_offset()),
        of(9_000i64..=11_000),
        of(any_offset()),
    );
    (first, rest).prop_map(|(first, rest)| Change {
        // A leap second is no rate.
        status: first
            .0
            .map(|status| (status | STA_PLL & status >> 1) & !(STA_INS | STA_DEL)),
        nano: first.1,
        frequency: first.2.map(|frequency| frequency / 30),
        max_error: first.3,
        constant: rest.0,
        offset: rest.1,
        tick: rest.2,
        estimated_error: rest.3,
        tai: None,
    })
}

fn any_act(longest: u64) -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => prop_oneof![0..5_000_000u64, 0..longest].prop_map(Act::Advance),
        1 => prop_oneof![0..4_000_000_000_000_000_000i64, any::<i64>()].prop_map(Act::Set),
        1 => any_offset().prop_map(Act::Single),
        3 => any_change().prop_map(Act::Change),
    ]
}

fn act(ntp: &mut Ntp, now: &mut u64, act: Act) {
    match act {
        Act::Advance(ns) => {
            *now = now.saturating_add(ns);
            ntp.advance(*now);
        }
        Act::Set(offset) => ntp.set(*now, offset),
        Act::Single(us) => ntp.set_single(us),
        Act::Change(change) => ntp.change(&change),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// However often it is moved, it shows the same.
    #[test]
    fn pieces_make_the_whole(
        acts in prop::collection::vec(any_act(3_000_000_000), 1..20),
        pieces in prop::collection::vec(1..2_000_000_000u64, 1..20),
    ) {
        let (mut whole, mut pieced) = (Ntp::new(), Ntp::new());
        let (mut now, mut then) = (0, 0);
        for one in acts {
            if let Act::Advance(ns) = one {
                for piece in &pieces {
                    pieced.advance(then + piece % (ns + 1));
                }
                settle(&mut pieced, then);
            }
            act(&mut whole, &mut now, one);
            act(&mut pieced, &mut then, one);
            settle(&mut whole, now);
            settle(&mut pieced, then);
            prop_assert_eq!(whole.offset(), pieced.offset());
            prop_assert_eq!(whole.readout(), pieced.readout());
            prop_assert_eq!(whole.single(), pieced.single());
            prop_assert_eq!((whole.next(), whole.fastest()), (pieced.next(), pieced.fastest()));
        }
    }

    /// Between two looks it goes on, by no more than the fastest rate says; what is told stays in
    /// its limits.
    #[test]
    fn it_goes_on(
        acts in prop::collection::vec(any_act(20_000_000_000), 1..30),
        ns in 0..5_000_000_000u64,
    ) {
        let (mut ntp, mut now) = (Ntp::new(), 0);
        for one in acts {
            act(&mut ntp, &mut now, one);
        }
        settle(&mut ntp, now);
        let (before, fastest) = (ntp.offset(), ntp.fastest());
        settle(&mut ntp, now + ns);
        let passed = i128::from(ns) + i128::from(ntp.offset()) - i128::from(before);
        prop_assert!(passed >= i128::from(ns) * 3 / 4 - 1, "{} in {}", passed, ns);
        let most = i128::from(ns) * i128::from(fastest) / (1_000_000_000i128 << 32);
        prop_assert!(passed <= i128::from(ns) + most + 1);
        let readout = ntp.readout();
        prop_assert!(readout.frequency.abs() <= 500 << 16);
        prop_assert!(readout.offset.abs() <= 500_000_000);
        prop_assert!((0..=16_000_000).contains(&readout.max_error));
        prop_assert!((0..=10).contains(&readout.constant));
        prop_assert!(ntp.next().is_none_or(|ns| (SHORTEST..=2 * SECOND).contains(&ns)));
    }

    /// Moved when it wants to be, it never shows a time by a look's length wrong, and a slow one
    /// goes back by less than a move may.
    #[test]
    fn moves_are_small(changes in prop::collection::vec(any_change(), 1..6), us in any_offset()) {
        let mut ntp = locked(1_700_000_000);
        for change in &changes {
            ntp.change(change);
        }
        ntp.set_single(us);
        let mut now = 0;
        for _ in 0..2_000 {
            let Some(ns) = ntp.next() else { break };
            let before = ntp.offset();
            now += ns;
            ntp.advance(now);
            let moved = ntp.offset() - before;
            prop_assert!(moved.abs() < MOST_BACK, "{}", moved);
            prop_assert!(ns == SHORTEST || moved.abs() <= 65, "{} in {}", moved, ns);
        }
    }

    /// No numbers are too large for it, nor times too long.
    #[test]
    fn extremes_are_no_trouble(acts in prop::collection::vec(any_act(u64::MAX), 1..40)) {
        let (mut ntp, mut now) = (Ntp::new(), 0);
        for one in acts {
            act(&mut ntp, &mut now, one);
            ntp.fastest();
            ntp.next();
            ntp.readout();
        }
    }
}

/// A clock that has so many seconds left of a day, and is asked for a leap second.
fn leaping(left: i64, status: u32) -> Ntp {
    let mut ntp = Ntp::new();
    ntp.set(0, (86_400 * 20_000 - left) * SECOND as i64);
    ntp.change(&Change {
        status: Some(status),
        tai: Some(37),
        ..Change::default()
    });
    ntp
}

/// The second of the day, the state, and CLOCK_TAI's offset at `ns`.
fn leap_at(ntp: &mut Ntp, ns: u64) -> (i64, u32, i64) {
    ntp.advance(ns);
    let shown = ntp.realtime().div_euclid(SECOND as i64).rem_euclid(86_400);
    (shown, ntp.readout().leap.state(), ntp.tai())
}

#[test]
fn a_second_is_inserted() {
    let mut ntp = leaping(3, STA_INS);
    let half = SECOND / 2;
    assert_eq!(leap_at(&mut ntp, half), (86_397, 0, 37));
    assert_eq!(leap_at(&mut ntp, SECOND + half), (86_398, 1, 37));
    assert_eq!(leap_at(&mut ntp, 2 * SECOND + half), (86_399, 1, 37));
    assert!(ntp.next().is_some_and(|ns| ns <= half));
    assert_eq!(leap_at(&mut ntp, 3 * SECOND + half), (86_399, 3, 38));
    assert_eq!(leap_at(&mut ntp, 4 * SECOND + half), (0, 4, 38));
    assert_eq!(leap_at(&mut ntp, 9 * SECOND + half), (5, 4, 38));
    ntp.change(&Change {
        status: Some(0),
        ..Change::default()
    });
    assert_eq!(leap_at(&mut ntp, 11 * SECOND), (7, 0, 38));
    assert_eq!(ntp.next(), None);
}

#[test]
fn a_second_is_deleted() {
    let mut ntp = leaping(3, STA_DEL);
    assert_eq!(leap_at(&mut ntp, SECOND), (86_398, 2, 37));
    assert_eq!(leap_at(&mut ntp, 2 * SECOND), (0, 4, 36));
}

#[test]
fn a_leap_second_that_is_taken_back_does_not_come() {
    let mut ntp = leaping(3, STA_INS);
    ntp.advance(SECOND);
    ntp.change(&Change {
        status: Some(0),
        ..Change::default()
    });
    assert_eq!(leap_at(&mut ntp, 4 * SECOND), (1, 0, 37));
    let mut ntp = leaping(3, STA_INS);
    ntp.advance(SECOND);
    // The clock is set: nor does it then.
    ntp.set(
        SECOND,
        (86_400 * 20_000 - 1) * SECOND as i64 - SECOND as i64,
    );
    assert_eq!(leap_at(&mut ntp, 4 * SECOND), (2, 1, 37));
}
