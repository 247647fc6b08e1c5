//! Headers and options are read as they were written, and anything may be read.

use proptest::prelude::*;
use tcp::header::{Flags, Header, LENGTH, MOST_BYTES, Malformed};
use tcp::options::{Blocks, Options, Timestamps};

fn options() -> impl Strategy<Value = Options> {
    let blocks = proptest::collection::vec(any::<(u32, u32)>(), 0..=2);
    (
        proptest::option::of(any::<u16>()),
        proptest::option::of(0u8..=14),
        any::<bool>(),
        proptest::option::of(any::<(u32, u32)>()),
        blocks,
    )
        .prop_map(|(mss, window_scale, sack_permitted, times, blocks)| {
            let mut sack = Blocks::default();
            // With all options of a SYN there is no room for a block, and none is sent.
            if mss.is_none() && window_scale.is_none() {
                for (start, end) in blocks {
                    sack.push(start, end);
                }
            }
            let timestamps = times.map(|(value, echo)| Timestamps { value, echo });
            Options {
                mss,
                window_scale,
                sack_permitted,
                timestamps,
                sack,
            }
        })
}

proptest! {
    #[test]
    fn written_and_read(options in options(), numbers in any::<(u32, u32, u16, u16, u8)>()) {
        let (seq, ack, window, urgent, flags) = numbers;
        let header = Header {
            source: 1, destination: 65535, seq, ack, flags: Flags::from_bits_retain(flags), window, urgent, options,
        };
        let mut bytes = [0; MOST_BYTES];
        let length = header.write(&mut bytes);
        prop_assert_eq!(length, LENGTH + options.len());
        prop_assert_eq!(Header::parse(&bytes[..length]), Ok((header, length)));
    }

    #[test]
    fn anything_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        if let Ok((_, payload)) = Header::parse(&bytes) {
            prop_assert!((LENGTH..=bytes.len()).contains(&payload));
        }
        Options::parse(&bytes);
    }
}

#[test]
fn bad_lengths() {
    assert_eq!(Header::parse(&[0; 19]), Err(Malformed));
    assert_eq!(Header::parse(&[0; 20]), Err(Malformed));
    // The option of a wrong length ends the list; what stands before it counts.
    let options = Options::parse(&[2, 4, 5, 180, 3, 0, 4, 2]);
    assert_eq!(options.mss, Some(1460));
    assert!(options.window_scale.is_none() && !options.sack_permitted);
    assert_eq!(Options::parse(&[3, 3, 200]).window_scale, Some(14));
}

#[test]
fn blocks_that_fit() {
    let mut options = Options {
        timestamps: Some(Timestamps { value: 1, echo: 2 }),
        ..Options::default()
    };
    for block in 0..4 {
        assert!(options.sack.push(block, block + 1));
    }
    assert!(!options.sack.push(9, 10));
    let mut bytes = [0; 40];
    let length = options.write(&mut bytes);
    assert_eq!(length, 40);
    assert_eq!(Options::parse(&bytes[..length]).sack.as_slice().len(), 3);
}

#[test]
fn reset_of_no_connection() {
    let syn = Header {
        source: 1,
        destination: 2,
        seq: 100,
        flags: Flags::SYN,
        ..Header::default()
    };
    let reset = syn.reset(3).expect("a reset");
    assert_eq!((reset.source, reset.seq, reset.ack), (2, 0, 104));
    assert!(reset.reset(0).is_none());
    let ack = Header {
        ack: 7,
        flags: Flags::ACK,
        ..syn
    };
    let reset = ack.reset(0).expect("a reset");
    assert_eq!((reset.seq, reset.flags), (7, Flags::RST));
}
