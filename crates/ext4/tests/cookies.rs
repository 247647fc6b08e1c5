//! Programs that read a directory in parts while others change it: each name that exists throughout
//! is returned once.

mod support;

use std::collections::BTreeMap;

use ext4::{Fs, New, ROOT};
use support::{Disk, Random, make, mount};

const KINDS: [&str; 4] = [
    "-b 1024 -J size=1 -N 4096",
    "-b 1024 -J size=1 -N 4096 -O ^dir_index",
    "-b 4096 -J size=4 -N 4096 -O ^metadata_csum",
    "-b 1024 -J size=1 -N 4096 -O large_dir",
];

fn create(fs: &mut Fs<Disk>, name: &str) {
    let new = New {
        mode: 0o100600,
        ..New::default()
    };
    fs.create(ROOT, name.as_bytes(), new).unwrap();
}

fn remove(fs: &mut Fs<Disk>, name: &str) {
    let inode = fs.unlink(ROOT, name.as_bytes()).unwrap();
    fs.evict(inode.number).unwrap();
}

/// Reads up to `count` names from `from` on. Returns where to go on, or `None` at the end.
fn read(
    fs: &mut Fs<Disk>,
    from: u64,
    count: usize,
    told: &mut BTreeMap<Vec<u8>, usize>,
) -> Option<u64> {
    let root = fs.inode(ROOT).unwrap();
    let (mut next, mut left) = (from, count);
    fs.read_directory(&root, from, |entry| {
        if left == 0 {
            return false;
        }
        left -= 1;
        next = entry.next;
        *told.entry(entry.name.to_vec()).or_default() += 1;
        true
    })
    .unwrap();
    (left == 0).then_some(next)
}

#[test]
fn names_that_stay_are_told_once_whatever_happens_to_others() {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        for kept in [3, 60, 400] {
            let Some(image) = make(16, kind) else { return };
            let (mut fs, mut random) = (mount(image), Random(seed as u64 + kept));
            for number in 0..kept {
                create(&mut fs, &format!("kept {number} {}", "x".repeat(20)));
            }
            let mut others: Vec<String> = Vec::new();
            let (mut told, mut from, mut turn) = (BTreeMap::new(), Some(0), 0);
            while let Some(at) = from {
                for _ in 0..8 {
                    turn += 1;
                    if others.len() < 20 || random.below(5) > 1 {
                        let name = format!("other {turn} {}", "y".repeat(random.below(60)));
                        create(&mut fs, &name);
                        others.push(name);
                    } else {
                        let gone = random.below(others.len());
                        remove(&mut fs, &others.swap_remove(gone));
                    }
                    if turn > 1500 {
                        // The reader is to come to an end.
                        break;
                    }
                }
                from = read(&mut fs, at, 1 + random.below(7), &mut told);
            }
            for number in 0..kept {
                let name = format!("kept {number} {}", "x".repeat(20)).into_bytes();
                assert_eq!(told.get(&name), Some(&1), "{kind} {kept} {number}");
            }
            assert_eq!(told[&b".".to_vec()], 1);
            assert_eq!(told[&b"..".to_vec()], 1);
        }
    }
}

#[test]
fn each_position_leads_to_the_entry_behind_it() {
    for kind in KINDS {
        let Some(image) = make(16, kind) else { return };
        let mut fs = mount(image);
        for number in 0..300 {
            create(&mut fs, &format!("{number}"));
        }
        let root = fs.inode(ROOT).unwrap();
        let mut all = Vec::new();
        fs.read_directory(&root, 0, |entry| {
            all.push((entry.name.to_vec(), entry.next));
            true
        })
        .unwrap();
        assert_eq!(all.len(), 303, "{kind}");
        for (index, (_, next)) in all.iter().enumerate() {
            let mut first = None;
            fs.read_directory(&root, *next, |entry| {
                first = Some(entry.name.to_vec());
                false
            })
            .unwrap();
            let expected = all.get(index + 1).map(|(name, _)| name.clone());
            assert_eq!(first, expected, "{kind}: {index}");
            assert!(i64::try_from(*next).is_ok());
        }
    }
}
