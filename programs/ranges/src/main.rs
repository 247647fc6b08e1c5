//! Every number that a system call takes, at the ends of its range: alone, which is told and the
//! same on every kernel that does as Linux does, and in pairs, which come back, soon, and leave the
//! machine as it was.

mod attempt;
mod objects;
mod sandbox;

use std::collections::BTreeMap;
use std::time::Duration;

use abi::{Call, errno_name};

use attempt::{Attempt, ENDS, Named, Place};
use objects::Object;
use sandbox::{Outcome, Sandbox};

/// The ends of a pair.
const OF_PAIRS: [i64; 9] = [
    0,
    1,
    -1,
    1 << 31,
    1 << 32,
    1 << 39,
    1 << 47,
    1 << 62,
    i64::MAX,
];
/// A call takes no longer than this of the machine's time.
const LONG: Duration = Duration::from_secs(1);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names = arguments.get(1..).unwrap_or_default();
    let chosen = |call: &&Call| names.is_empty() || names.iter().any(|name| name == call.name);
    match arguments.first().map(String::as_str) {
        Some("alone") => {
            let sandbox = Sandbox::new(false);
            let calls = attempt::calls().filter(chosen);
            calls.for_each(|call| alone(&sandbox, call));
        }
        Some("pairs") => pairs(attempt::calls().filter(chosen), false),
        Some("root") => pairs(attempt::calls().filter(chosen), true),
        _ => {
            eprintln!("usage: ranges alone|pairs|root [CALL…]");
            std::process::exit(2);
        }
    }
}

/// Tells what comes of each argument of a call at each end, for each object where that differs.
fn alone(sandbox: &Sandbox, call: &'static Call) {
    println!("{}", call.name);
    let mut usual = BTreeMap::new();
    for &object in attempt::objects(call) {
        for place in attempt::places(call, object) {
            let of = |end| Attempt {
                call,
                object,
                set: vec![(place, end)],
            };
            let attempts = ENDS.map(of);
            let mut outcomes: BTreeMap<Outcome, Vec<String>> = BTreeMap::new();
            let mut first = 0;
            while first < attempts.len() {
                let told = sandbox.run(&attempts[first..]).outcomes;
                for (end, outcome) in ENDS[first..].iter().zip(&told) {
                    let end = attempt::End(*end).to_string();
                    outcomes.entry(*outcome).or_default().push(end);
                }
                first += told.len();
            }
            // Where every end leads to the same, the number does not matter.
            let matters = outcomes.len() > 1 || matches!(place, Place::Register(_));
            if matters && usual.get(&place) != Some(&outcomes) {
                tell(place, object, &outcomes);
            }
            usual.entry(place).or_insert(outcomes);
        }
    }
}

fn tell(place: Place, object: Object, outcomes: &BTreeMap<Outcome, Vec<String>>) {
    print!("  {}", Named(place));
    if object != Object::File {
        print!(" of {object:?}");
    }
    let mut separator = ": ";
    for (outcome, ends) in outcomes {
        let outcome = match outcome {
            Outcome::Ok => "ok".to_owned(),
            Outcome::Error(error) => errno_name(*error as usize).unwrap_or("?").to_owned(),
            Outcome::Signal(signal) => format!("signal {signal}"),
            Outcome::Hangs => "waits".to_owned(),
        };
        print!("{separator}{outcome} {}", ends.join(" "));
        separator = "; ";
    }
    println!();
}

/// Tries all pairs of ends in the arguments of each call, for each choice and each object, and
/// tells of those that do not come back or take long.
fn pairs(calls: impl Iterator<Item = &'static Call>, root: bool) {
    let sandbox = Sandbox::new(root);
    for call in calls.filter(|call| !root || !is_of_machine(call.name)) {
        let mut attempts = Vec::new();
        for &object in attempt::objects(call) {
            for choice in attempt::choices(call) {
                add_pairs(&mut attempts, call, object, &choice);
            }
        }
        let (mut first, mut ended) = (0, 0);
        while first < attempts.len() {
            let end = sandbox.run(&attempts[first..]);
            if end.hangs {
                println!("{}: does not come back", attempts[first + end.at]);
            }
            if let Some(long) = end.long {
                look_again(&sandbox, &attempts[first + long]);
            }
            first += end.at + 1;
            ended += 1;
        }
        if std::env::var_os("RANGES_VERBOSE").is_some() {
            println!("{}: {} in {ended} children", call.name, attempts.len());
        }
    }
    println!("all tried");
}

/// Calls that change the whole machine when root makes them.
fn is_of_machine(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "acct",
        "adjtimex",
        "clock_adjtime",
        "clock_settime",
        "kill",
        "mount",
        "umount2",
        "sethostname",
        "setdomainname",
        "settimeofday",
        "syslog",
        "tkill",
        "chroot",
        "pidfd_send_signal",
    ];
    NAMES.contains(&name)
}

fn add_pairs(
    attempts: &mut Vec<Attempt>,
    call: &'static Call,
    object: Object,
    choice: &[(Place, i64)],
) {
    let places: Vec<Place> = attempt::places(call, object)
        .into_iter()
        .filter(|place| choice.iter().all(|(chosen, _)| chosen != place))
        .collect();
    for (at, &one) in places.iter().enumerate() {
        for &other in &places[at + 1..] {
            for a in OF_PAIRS {
                for b in OF_PAIRS {
                    let mut set = choice.to_vec();
                    set.extend([(one, a), (other, b)]);
                    attempts.push(Attempt { call, object, set });
                }
            }
        }
    }
}

/// Tells of an attempt if it takes long whenever it is made: the host may have been busy.
fn look_again(sandbox: &Sandbox, attempt: &Attempt) {
    let again = || sandbox.run(std::slice::from_ref(attempt)).busy;
    let least = (0..5).map(|_| again()).min().unwrap_or_default();
    if least > LONG {
        println!("{attempt}: takes long");
    }
}
