//! Encoded frames are decoded, however the stream is cut, and no stream makes a decoder panic.

use proptest::prelude::*;
use wire::frame::Item;
use wire::{Channel, Control, Decoder, Input, Job, SYNC, encode, job};

fn channel() -> impl Strategy<Value = Channel> {
    prop::sample::select(vec![
        Channel::Stdin,
        Channel::Stdout,
        Channel::Stderr,
        Channel::Control,
        Channel::Counts,
        Channel::Trace,
    ])
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1u8..=255, 0..20)
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(Input::Empty),
        Just(Input::Channel),
        "[a-z/ ]{1,20}".prop_map(Input::File),
        any::<(u16, u16, bool)>().prop_map(|(rows, columns, stderr)| Input::Terminal {
            rows,
            columns,
            stderr
        }),
    ]
}

fn a_job() -> impl Strategy<Value = Job> {
    (
        prop::collection::vec(text(), 0..5),
        prop::collection::vec(text(), 0..3),
        "[a-z/ ]{0,20}",
        input(),
        any::<bool>(),
        any::<bool>(),
        prop::option::of("[a-z0-9:]{0,9}"),
        any::<bool>(),
    )
        .prop_map(
            |(arguments, environment, directory, input, count, trace, user, settle)| Job {
                arguments,
                environment,
                directory,
                input,
                count,
                trace,
                user,
                settle,
            },
        )
}

/// All that a decoder finds in `stream` when it arrives in pieces of `piece` bytes.
fn decode(mut decoder: Decoder, stream: &[u8], piece: usize) -> (Vec<u8>, Vec<(Channel, Vec<u8>)>) {
    let (mut noise, mut frames) = (Vec::new(), Vec::new());
    for part in stream.chunks(piece) {
        decoder.push(part);
        while let Some(item) = decoder.pop() {
            match item {
                Item::Noise(bytes) => noise.extend(bytes),
                Item::Frame(channel, payload) => frames.push((channel, payload)),
                Item::Broken(_) => return (noise, frames),
            }
        }
    }
    (noise, frames)
}

proptest! {
    #[test]
    fn frames_survive_any_cut(
        frames in prop::collection::vec((channel(), prop::collection::vec(any::<u8>(), 0..300)), 0..10),
        noise in prop::collection::vec(any::<u8>(), 0..50),
        piece in 1usize..400,
    ) {
        prop_assume!(!noise.windows(SYNC.len()).any(|window| window == SYNC));
        let mut stream = noise.clone();
        stream.extend_from_slice(SYNC);
        for (channel, payload) in &frames {
            encode(*channel, payload, &mut stream);
        }
        prop_assert_eq!(decode(Decoder::awaiting_sync(), &stream, piece), (noise, frames));
    }

    #[test]
    fn any_bytes_are_borne(stream in prop::collection::vec(any::<u8>(), 0..500), piece in 1usize..50) {
        decode(Decoder::awaiting_sync(), &stream, piece);
        decode(Decoder::synced(), &stream, piece);
        let _ = Control::decode(&stream);
        let _ = job::decode(&stream);
    }

    #[test]
    fn jobs_survive(jobs in prop::collection::vec(a_job(), 0..4)) {
        prop_assert_eq!(job::decode(&job::encode(&jobs)), Ok(jobs));
    }

    #[test]
    fn controls_survive(number in any::<u16>(), other in any::<u16>(), byte in any::<u8>()) {
        for control in [
            Control::Started(number),
            Control::Exited(byte),
            Control::Killed(byte),
            Control::Failed(number),
            Control::Credit(number),
            Control::Resize(number, other),
            Control::Signal(byte),
            Control::Stop(byte),
        ] {
            prop_assert_eq!(Control::decode(&control.encode()), Some(control));
        }
    }
}

#[test]
fn a_long_payload_takes_several_frames() {
    let long = vec![7; 150_000];
    let mut stream = Vec::new();
    encode(Channel::Stdout, &long, &mut stream);
    let (_, frames) = decode(Decoder::synced(), &stream, 4096);
    assert_eq!(frames.len(), 3);
    assert_eq!(frames.concat_payloads(), long);
}

trait Payloads {
    fn concat_payloads(&self) -> Vec<u8>;
}

impl Payloads for Vec<(Channel, Vec<u8>)> {
    fn concat_payloads(&self) -> Vec<u8> {
        self.iter()
            .flat_map(|(_, payload)| payload.clone())
            .collect()
    }
}
