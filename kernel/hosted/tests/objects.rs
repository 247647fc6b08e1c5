//! System V objects, message queues and keys, compared with models of their limits.

mod each;

use std::collections::VecDeque;

use each::each;
use hosted::*;
use linux_raw_sys::general::*;
use proptest::prelude::*;

const IPC_PRIVATE: u32 = 0;
const IPC_CREAT: u32 = 0o1000;
const IPC_NOWAIT: u32 = 0o4000;
const IPC_RMID: u32 = 0;
const IPC_STAT: u32 = 2;
const SETALL: u32 = 17;
const GETALL: u32 = 13;
const SEM_UNDO: u16 = 0x1000;
const HIGHEST: i32 = 32767;

/// Operations of one semop(2): a semaphore, a change, whether it is undone.
type Operations = Vec<(u16, i16, bool)>;

fn operations() -> impl Strategy<Value = Operations> {
    let change = prop_oneof![
        4 => -3..4i16,
        1 => prop::sample::select(vec![i16::MIN, i16::MIN + 1, 32765, 32766, 32767]),
    ];
    prop::collection::vec((0..4u16, change, any::<bool>()), 1..4)
}

/// Applies the effect of semop(2) to the values and to the adjustments of SEM_UNDO.
fn operate(
    values: &mut [i32; 3],
    undo: &mut [i32; 3],
    operations: &Operations,
) -> Result<usize, Errno> {
    if operations.iter().any(|(at, ..)| *at >= 3) {
        return Err(Errno::EFBIG);
    }
    let (mut new, mut back) = (*values, *undo);
    for &(at, change, undoes) in operations {
        let at = at as usize;
        let value = new[at] + i32::from(change);
        if value < 0 || change == 0 && new[at] != 0 {
            return Err(Errno::EAGAIN);
        }
        if value > HIGHEST {
            return Err(Errno::ERANGE);
        }
        if undoes {
            back[at] -= i32::from(change);
            if !(-HIGHEST - 1..=HIGHEST).contains(&back[at]) {
                return Err(Errno::ERANGE);
            }
        }
        new[at] = value;
    }
    (*values, *undo) = (new, back);
    Ok(0)
}

#[test]
fn semaphores_are_as_their_model() {
    let values = || prop_oneof![0..5u16, 32760..=32767u16];
    let start = prop::array::uniform3(values());
    let steps = prop::collection::vec(operations(), 1..20);
    // A case with adjustments at the limits of a half word.
    let ends = [
        (32767, true),
        (-1, false),
        (1, true),
        (-1, false),
        (1, true),
    ];
    let ends = ends.map(|(change, undo)| vec![(0, change, undo)]).to_vec();
    let cases = prop_oneof![9 => (start, steps), 1 => Just(([0; 3], ends))];
    each(cases, |(start, steps)| {
        let set = sys!(semget, IPC_PRIVATE, 3, 0o600).unwrap();
        let all = |values: [u16; 3]| put(&values.map(u16::to_ne_bytes).concat());
        sys!(semctl, set, 0, SETALL, all(start)).unwrap();
        let room = reserve(6);
        let held = move || {
            sys!(semctl, set, 0, GETALL, room).unwrap();
            let bytes = peek(room, 6);
            [0, 2, 4].map(|at| i32::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]])))
        };
        let status = reserve(4);
        let child = fork(move || {
            let (mut values, mut undo) = (start.map(i32::from), [0; 3]);
            for step in steps {
                let operation = |(at, change, undo): &(u16, i16, bool)| {
                    let flags = IPC_NOWAIT as u16 | if *undo { SEM_UNDO } else { 0 };
                    [at.to_ne_bytes(), change.to_ne_bytes(), flags.to_ne_bytes()].concat()
                };
                let bytes: Vec<u8> = step.iter().flat_map(operation).collect();
                let expected = operate(&mut values, &mut undo, &step);
                assert_eq!(sys!(semop, set, &*bytes, step.len()), expected);
                assert_eq!(held(), values);
            }
            // The values after its adjustments at exit, for the parent.
            for at in 0..3 {
                values[at] = (values[at] + undo[at]).clamp(0, HIGHEST);
            }
            let left = values.map(|value| (value as u32).to_ne_bytes()).concat();
            sys!(write, open("/tmp/left"), &*left, left.len()).unwrap();
            sys!(exit_group, 7).unwrap();
        });
        sys!(wait4, child.unwrap(), status, 0, 0).unwrap();
        assert_eq!(peek(status, 2), [0, 7]);
        let left = reserve(12);
        sys!(pread64, open("/tmp/left"), left, 12, 0).unwrap();
        let found = held().map(|value| (value as u32).to_ne_bytes()).concat();
        assert_eq!(found, peek(left, 12));
        sys!(semctl, set, 0, 0, 0).unwrap();
    });
}

#[test]
fn attachments_are_counted() {
    run(|| {
        let segment = sys!(shmget, IPC_PRIVATE, 1, 0o600).unwrap();
        let status = reserve(112);
        let attached = move || {
            sys!(shmctl, segment, IPC_STAT, status).unwrap();
            usize::from_ne_bytes(peek(status + 88, 8).try_into().unwrap())
        };
        let attach = move || sys!(shmat, segment, 0, 0).unwrap();
        let mut at: Vec<usize> = (0..600).map(|_| attach()).collect();
        assert_eq!(attached(), 600);
        // Every third is removed, in either order, and others take their places.
        let gone = |at: &mut Vec<usize>| {
            at.reverse();
            let (mut count, before) = (0, at.len());
            at.retain(|&at| {
                count += 1;
                count % 3 != 0 || sys!(shmdt, at).is_err()
            });
            assert_eq!((at.len(), attached()), (before - before / 3, at.len()));
        };
        gone(&mut at);
        gone(&mut at);
        at.extend((0..400).map(|_| attach()));
        assert_eq!(attached(), at.len());
        let all = at.len();
        let child = fork(move || {
            assert_eq!(attached(), 2 * all);
            sys!(exit_group, 7).unwrap();
        });
        sys!(wait4, child.unwrap(), status, 0, 0).unwrap();
        assert_eq!((peek(status, 2), attached()), (vec![0, 7], all));
        sys!(shmctl, segment, IPC_RMID, 0).unwrap();
        assert_eq!(attached(), all);
        at.into_iter().for_each(|at| _ = sys!(shmdt, at).unwrap());
        assert!(sys!(shmctl, segment, IPC_STAT, status).is_err());
    });
}

fn open(path: &str) -> usize {
    sys!(openat, AT_FDCWD, path, O_RDWR | O_CREAT, 0o600).unwrap()
}

#[derive(Clone, Debug)]
enum OnQueue {
    Send(isize, usize),
    Take(isize, usize, bool),
}

const CAPACITY: usize = 16384;
const LONGEST: usize = 8192;
const NOERROR: u32 = 0o10000;

fn on_queue() -> impl Strategy<Value = Vec<OnQueue>> {
    let len = prop_oneof![
        4 => 0..4usize,
        2 => 4000..4100usize,
        2 => LONGEST - 1..=LONGEST + 1,
        1 => prop::sample::select(vec![usize::MAX, isize::MAX as usize]),
    ];
    let most = prop_oneof![3 => 0..5usize, 3 => Just(LONGEST), 1 => Just(usize::MAX)];
    let one = prop_oneof![
        (-1..4isize, len).prop_map(|(kind, len)| OnQueue::Send(kind, len)),
        (-3..4isize, most, any::<bool>())
            .prop_map(|(kind, most, cuts)| OnQueue::Take(kind, most, cuts)),
    ];
    prop::collection::vec(one, 1..40)
}

#[test]
fn queues_are_as_their_model() {
    each(on_queue(), |steps| {
        let queue = sys!(msgget, IPC_PRIVATE, IPC_CREAT | 0o600).unwrap();
        let room = reserve(8 + 2 * LONGEST);
        let mut held: VecDeque<(isize, usize)> = VecDeque::new();
        for step in steps {
            match step {
                OnQueue::Send(kind, len) => {
                    poke(room, &kind.to_ne_bytes()).unwrap();
                    let bytes: usize = held.iter().map(|(_, len)| len).sum();
                    let expected = if len > LONGEST || kind < 1 {
                        Err(Errno::EINVAL)
                    } else if bytes + len > CAPACITY {
                        Err(Errno::EAGAIN)
                    } else {
                        held.push_back((kind, len));
                        Ok(0)
                    };
                    assert_eq!(sys!(msgsnd, queue, room, len, IPC_NOWAIT), expected);
                }
                OnQueue::Take(kind, most, cuts) => {
                    let flags = IPC_NOWAIT | if cuts { NOERROR } else { 0 };
                    let wanted = |(other, _): &(isize, usize)| match kind {
                        0 => true,
                        1.. => *other == kind,
                        _ => *other <= -kind,
                    };
                    let found = held.iter().enumerate().filter(|(_, one)| wanted(one));
                    let found = match kind {
                        ..0 => found.min_by_key(|(at, (other, _))| (*other, *at)),
                        _ => found.min_by_key(|(at, _)| *at),
                    };
                    let found = found.map(|(at, (_, len))| (at, *len));
                    let expected = match found {
                        _ if most > isize::MAX as usize => Err(Errno::EINVAL),
                        None => Err(Errno::ENOMSG),
                        Some((_, len)) if len > most && !cuts => Err(Errno::E2BIG),
                        Some((at, len)) => {
                            held.remove(at);
                            Ok(len.min(most))
                        }
                    };
                    let taken = sys!(msgrcv, queue, room, most, kind, flags);
                    assert_eq!(taken, expected);
                }
            }
        }
        sys!(msgctl, queue, 0, 0).unwrap();
    });
}

fn mq_open(name: &str, messages: i64, bytes: i64) -> Result<usize, Errno> {
    let attributes = put(&[0, messages, bytes, 0, 0, 0, 0, 0]
        .map(i64::to_ne_bytes)
        .concat());
    sys!(
        mq_open,
        name,
        O_RDWR | O_CREAT | O_NONBLOCK,
        0o600,
        attributes
    )
}

#[test]
fn message_queues_are_as_their_model() {
    let send = (0..3u32, prop_oneof![0..3usize, 15..18usize]);
    let steps = prop::collection::vec(prop::option::of(send), 1..30);
    each(steps, |steps| {
        let queue = mq_open("queue", 3, 16).unwrap();
        let room = reserve(32);
        let mut held: Vec<(u32, usize)> = Vec::new();
        for step in steps {
            if let Some((priority, len)) = step {
                let expected = if len > 16 {
                    Err(Errno::EMSGSIZE)
                } else if held.len() == 3 {
                    Err(Errno::EAGAIN)
                } else {
                    held.push((priority, len));
                    Ok(0)
                };
                assert_eq!(sys!(mq_timedsend, queue, room, len, priority, 0), expected);
                continue;
            }
            // The oldest message of the highest priority.
            let best = held.iter().map(|(priority, _)| *priority).max();
            let at = held
                .iter()
                .position(|(priority, _)| Some(*priority) == best);
            let expected = at.map(|at| held.remove(at)).ok_or(Errno::EAGAIN);
            let which = reserve(4);
            assert_eq!(
                sys!(mq_timedreceive, queue, room, 15, which, 0),
                Err(Errno::EMSGSIZE)
            );
            let taken = sys!(mq_timedreceive, queue, room, 16, which, 0);
            let taken =
                taken.map(|len| (u32::from_ne_bytes(peek(which, 4).try_into().unwrap()), len));
            assert_eq!(taken, expected);
        }
        sys!(mq_unlink, "queue").unwrap();
    });
}

#[test]
fn message_queues_have_limits() {
    run(|| {
        for (messages, bytes) in [
            (0, 1),
            (1, 0),
            (-1, 1),
            (1, -1),
            (i64::MAX, 1),
            (1, i64::MAX),
        ] {
            assert_eq!(
                mq_open("bad", messages, bytes),
                Err(Errno::EINVAL),
                "{messages} {bytes}"
            );
        }
        let queue = mq_open("good", 1, 1).unwrap();
        assert_eq!(
            sys!(mq_timedsend, queue, "x", 1, 32768, 0),
            Err(Errno::EINVAL)
        );
        assert_eq!(sys!(mq_timedsend, queue, "x", 1, 32767, 0), Ok(0));
        sys!(mq_unlink, "good").unwrap();
    });
}

const KEYCTL_JOIN_SESSION_KEYRING: u32 = 1;
const KEYCTL_UPDATE: u32 = 2;
const KEYCTL_REVOKE: u32 = 3;
const THREAD_RING: i32 = -1;

fn add(name: &str, len: usize) -> Result<usize, Errno> {
    sys!(
        add_key,
        "user",
        name,
        &vec![1; len.max(1)][..],
        len,
        THREAD_RING
    )
}

/// Becomes a user that has a session keyring and will have a thread keyring.
fn become_user(user: u32) {
    sys!(setresuid, user, user, user).unwrap();
    sys!(keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0).unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "250 keys")]
fn keys_have_a_quota_and_a_size() {
    run(|| {
        // Root has another.
        become_user(1000);
        assert_eq!(add("none", 0), Err(Errno::EINVAL));
        assert_eq!(add("longest", 32768), Err(Errno::EINVAL));
        assert_eq!(add("much", 20_001), Err(Errno::EDQUOT));
        // 200 keys, two of which are the rings.
        let keys: Vec<_> = (0..250).map(|at| add(&format!("{at}"), 1)).collect();
        let first = keys.iter().position(|key| *key == Err(Errno::EDQUOT));
        assert_eq!(first, Some(198));
        let key = keys[0].unwrap();
        assert_eq!(sys!(keyctl, KEYCTL_REVOKE, key), Ok(0));
        assert_eq!(
            sys!(keyctl, KEYCTL_UPDATE, key, "x", 1),
            Err(Errno::EKEYREVOKED)
        );
    });
    run(|| {
        become_user(1001);
        add("a", 16_000).unwrap();
        let key = add("b", 1).unwrap();
        let update = |len: usize| sys!(keyctl, KEYCTL_UPDATE, key, &[1; 5000][..], len);
        assert_eq!(update(4097), Err(Errno::EINVAL));
        // 20,000 less the other key; names and links count too, but little.
        assert_eq!(update(4000), Err(Errno::EDQUOT));
        assert_eq!(update(3900), Ok(0));
        assert_eq!(update(1), Ok(0));
    });
}
