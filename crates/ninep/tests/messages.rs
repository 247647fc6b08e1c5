//! Requests as the protocol lays them out, and replies of servers good and bad.

use ninep::{
    Entries, Error, HEAD, Ids, NO_FID, Qid, QidType, Request, SetStat, Stat, Time, Valid, head,
};
use proptest::prelude::*;

/// A message of this type and tag.
fn message(kind: u8, tag: u16, fields: &[u8]) -> Vec<u8> {
    let size = (HEAD + fields.len()) as u32;
    let mut bytes = size.to_le_bytes().to_vec();
    bytes.push(kind);
    bytes.extend(tag.to_le_bytes());
    bytes.extend(fields);
    bytes
}

fn encoded(request: Request) -> Vec<u8> {
    let mut buffer = [0; ninep::MOST_HEAD];
    let len = request.encode(5, &mut buffer).expect("it fits");
    buffer[..len].to_vec()
}

fn qid_bytes(kind: u8, path: u64) -> Vec<u8> {
    [&[kind][..], &7u32.to_le_bytes(), &path.to_le_bytes()].concat()
}

fn refused(number: u32) -> Vec<u8> {
    message(7, 5, &number.to_le_bytes())
}

#[test]
fn requests_are_laid_out() {
    let walk = Request::Walk {
        fid: 1,
        new: 2,
        name: Some(b"ab"),
    };
    let fields = [1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 2, 0, b'a', b'b'];
    assert_eq!(encoded(walk), message(110, 5, &fields));
    let again = Request::Walk {
        fid: 1,
        new: 2,
        name: None,
    };
    assert_eq!(
        encoded(again),
        message(110, 5, &[1, 0, 0, 0, 2, 0, 0, 0, 0, 0])
    );
    let flush = Request::Flush { tag: 0x0102 };
    assert_eq!(encoded(flush), message(108, 5, &[2, 1]));
    let ask = |generation| encoded(Request::GetAttr { fid: 1, generation });
    assert_eq!(ask(false)[HEAD + 4..], 0x7ffu64.to_le_bytes());
    assert_eq!(ask(true)[HEAD + 4..], 0x17ffu64.to_le_bytes());
    let attach = encoded(Request::Attach { new: 0, user: 9 });
    assert_eq!(attach[HEAD + 4..HEAD + 8], NO_FID.to_le_bytes());
    let set = Request::SetAttr {
        fid: 3,
        to: SetStat {
            valid: Valid::MODE | Valid::MTIME | Valid::MTIME_SET,
            mode: 0o644,
            modified: Time {
                seconds: -1,
                nanoseconds: 5,
            },
            ..SetStat::default()
        },
    };
    let set = encoded(set);
    assert_eq!(set.len(), HEAD + 60);
    assert_eq!(set[HEAD + 4..HEAD + 8], 0x121u32.to_le_bytes());
    assert_eq!(set[HEAD + 44..HEAD + 52], (-1i64).to_le_bytes());
}

/// The size of a request counts what follows elsewhere.
#[test]
fn data_follows() {
    let write = encoded(Request::Write {
        fid: 1,
        offset: 2,
        count: 100,
    });
    assert_eq!(write[..4], (write.len() as u32 + 100).to_le_bytes());
    let link = encoded(Request::Symlink {
        fid: 1,
        name: b"l",
        len: 10,
    });
    assert_eq!(link[..4], (link.len() as u32 + 10 + 4).to_le_bytes());
}

#[test]
fn two_long_names_fit_and_no_more() {
    let name = [b'n'; 255];
    let rename = Request::Rename {
        from: (1, &name),
        to: (2, &name),
    };
    assert_eq!(encoded(rename).len(), HEAD + 2 * (4 + 2 + 255));
    assert_eq!(rename.encode(0, &mut [0; 100]), None);
    let long = vec![0; 70_000];
    let create = Request::Create {
        fid: 1,
        name: &long,
        flags: 0,
        ids: Ids { mode: 0, gid: 0 },
    };
    assert_eq!(create.encode(0, &mut vec![0; 80_000]), None);
}

#[test]
fn heads_are_checked() {
    let good = message(121, 5, &[]);
    assert_eq!(head(&good, 7, 120, 5), Ok((&[][..], 0)));
    // Another tag, another type, and sizes that the device did not write.
    assert_eq!(head(&good, 7, 120, 6), Err(Error::Garbage));
    assert_eq!(head(&good, 7, 118, 5), Err(Error::Garbage));
    for size in [0u32, 6, 8, u32::MAX] {
        let mut bad = good.clone();
        bad[..4].copy_from_slice(&size.to_le_bytes());
        assert_eq!(head(&bad, 7, 120, 5), Err(Error::Garbage), "{size}");
    }
    for len in 0..HEAD {
        assert_eq!(head(&good[..len], len, 120, 5), Err(Error::Garbage));
    }
    // Bytes behind the head count, as far as the device wrote them.
    let mut read = message(117, 5, &3u32.to_le_bytes());
    read[..4].copy_from_slice(&14u32.to_le_bytes());
    let (fields, rest) = head(&read, 14, 116, 5).unwrap();
    assert_eq!((fields.len(), rest), (4, 3));
    assert_eq!(ninep::count(fields, 3, Some(rest)), Ok(3));
    assert_eq!(ninep::count(fields, 2, Some(rest)), Err(Error::Garbage));
    assert_eq!(ninep::count(fields, 9, Some(2)), Err(Error::Garbage));
    assert_eq!(head(&read, 13, 116, 5), Err(Error::Garbage));
}

#[test]
fn refusals_have_error_numbers() {
    assert_eq!(head(&refused(2), 11, 120, 5), Err(Error::Refused(2)));
    for number in [0, 4096, u32::MAX] {
        assert_eq!(head(&refused(number), 11, 120, 5), Err(Error::Garbage));
    }
    assert_eq!(head(&message(7, 5, &[1]), 8, 120, 5), Err(Error::Garbage));
}

#[test]
fn walks_find_one_file_or_none() {
    let one = [&[1, 0][..], &qid_bytes(0x80, 9)].concat();
    let found = ninep::walked(&one, true).unwrap().unwrap();
    assert_eq!((found.path, found.kind), (9, QidType::DIRECTORY));
    assert_eq!(ninep::walked(&[0, 0], true), Err(Error::Refused(2)));
    assert_eq!(ninep::walked(&[0, 0], false), Ok(None));
    assert_eq!(ninep::walked(&one, false), Err(Error::Garbage));
    assert_eq!(ninep::walked(&[2, 0], true), Err(Error::Garbage));
    assert_eq!(
        ninep::walked(&[one, vec![0]].concat(), true),
        Err(Error::Garbage)
    );
}

/// The fields of a file's attributes.
fn stat_bytes(kind: u8, mode: u32, size: u64) -> Vec<u8> {
    let mut fields = 0x7ffu64.to_le_bytes().to_vec();
    fields.extend(qid_bytes(kind, 3));
    for value in [mode, 10, 20] {
        fields.extend(value.to_le_bytes());
    }
    for value in [
        1,
        0,
        size,
        4096,
        8,
        100,
        5,
        200,
        u64::MAX,
        300,
        7,
        0,
        0,
        0,
        0,
    ] {
        fields.extend(value.to_le_bytes());
    }
    fields
}

#[test]
fn attributes_agree_with_qids() {
    let stat: Stat = ninep::stat(&stat_bytes(0, 0o100644, 5)).unwrap();
    assert_eq!((stat.uid, stat.gid, stat.size, stat.blocks), (10, 20, 5, 8));
    assert_eq!(stat.modified.nanoseconds, 999_999_999);
    assert_eq!(stat.changed.seconds, 300);
    assert!(ninep::stat(&stat_bytes(0x80, 0o040755, 0)).is_ok());
    assert!(ninep::stat(&stat_bytes(2, 0o120777, 0)).is_ok());
    // A directory that is a file, a link that is a directory, and a size that is no offset.
    for (kind, mode, size) in [
        (0x80, 0o100644, 0),
        (0, 0o040755, 0),
        (0x80, 0o120777, 0),
        (0, 0o100644, u64::MAX),
    ] {
        let parsed = ninep::stat(&stat_bytes(kind, mode, size));
        assert_eq!(parsed, Err(Error::Garbage), "{kind:x} {mode:o}");
    }
    let whole = stat_bytes(0, 0o100644, 5);
    for len in 0..whole.len() {
        assert_eq!(ninep::stat(&whole[..len]), Err(Error::Garbage));
    }
    let mut told = whole.clone();
    told[1] |= 0x10;
    // The generation is the last field but one.
    let at = told.len() - 16;
    told[at] = 9;
    assert_eq!(ninep::stat(&told).unwrap().generation, Some(9));
    assert_eq!(ninep::stat(&whole).unwrap().generation, None);
    let mut some = whole;
    some[0] = 1;
    assert_eq!(ninep::stat(&some), Err(Error::Garbage));
}

#[test]
fn the_same_file_may_have_another_version() {
    let qid = |kind, version, path| Qid {
        kind,
        version,
        path,
    };
    let file = qid(QidType::empty(), 1, 5);
    assert!(file.is_same(&qid(QidType::empty(), 2, 5)));
    assert!(!file.is_same(&qid(QidType::empty(), 1, 6)));
    assert!(!file.is_same(&qid(QidType::DIRECTORY, 1, 5)));
}

fn entry_bytes(next: u64, name: &[u8]) -> Vec<u8> {
    let mut bytes = qid_bytes(0, 4);
    bytes.extend(next.to_le_bytes());
    bytes.push(8);
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend(name);
    bytes
}

#[test]
fn entries_have_names_of_files() {
    let good = [&b"."[..], b"..", b"a", b"\xff\xfe", &[b'x'; 255]];
    let data: Vec<u8> = good.iter().flat_map(|name| entry_bytes(9, name)).collect();
    let names: Vec<_> = Entries::new(&data)
        .map(|entry| entry.unwrap().name)
        .collect();
    assert_eq!(names, good);
    for bad in [&b""[..], b"a/b", b"/", b"../x", b"a\0b", &[b'x'; 256]] {
        let data = [entry_bytes(1, bad), entry_bytes(2, b"a")].concat();
        let all: Vec<_> = Entries::new(&data).collect();
        assert_eq!(all, [Err(Error::Garbage)], "{bad:?}");
    }
    let far = entry_bytes(u64::MAX, b"a");
    assert_eq!(Entries::new(&far).next(), Some(Err(Error::Garbage)));
    let whole = entry_bytes(1, b"name");
    for len in 1..whole.len() {
        assert_eq!(
            Entries::new(&whole[..len]).next(),
            Some(Err(Error::Garbage))
        );
    }
}

#[test]
fn strings_and_versions() {
    assert_eq!(ninep::string(&[2, 0, b'a', 0xff]), Ok(&[b'a', 0xff][..]));
    for bad in [&[0, 0][..], &[2, 0, b'a'], &[1, 0, 0], &[1, 0, b'a', b'b']] {
        assert_eq!(ninep::string(bad), Err(Error::Garbage));
    }
    let version = [&8192u32.to_le_bytes()[..], &[8, 0], b"9P2000.L"].concat();
    let told = ninep::version(&version, 8192).unwrap();
    assert_eq!((told.size, told.name), (8192, ninep::VERSION));
    assert_eq!(ninep::version(&version, 8191), Err(Error::Garbage));
}

proptest! {
    /// No bytes make anything panic, and no entry leaves its directory.
    #[test]
    fn any_reply(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        written in 0usize..400,
        kind in any::<u8>().prop_map(|kind| kind & !1),
    ) {
        if let Ok((fields, rest)) = head(&bytes, written, kind, 5) {
            prop_assert!(HEAD + fields.len() + rest <= written);
        }
        let _ = (ninep::stat(&bytes), ninep::statfs(&bytes), ninep::qid(&bytes));
        let _ = (ninep::walked(&bytes, true), ninep::Opened::parse(&bytes));
        let _ = (ninep::version(&bytes, 9), ninep::string(&bytes), ninep::xattr_size(&bytes));
        for entry in Entries::new(&bytes).flatten() {
            prop_assert!(ninep::is_name(entry.name));
        }
    }
}
