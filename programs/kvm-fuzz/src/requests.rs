//! Random requests to random files, with arguments that are valid, nearly valid, or invalid.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::machine::{self, Memory, Page, call, make};
use random::Random;

/// Requests in each round.
const REQUESTS: usize = 3000;
/// The maximum number of open files.
const FILES: usize = 40;

/// Requests that some file knows.
const KNOWN: [u64; 42] = [
    0xae00,
    0xae01,
    0xae03,
    0xae04,
    0xae41,
    0x4010_ae42,
    0x4020_ae46,
    0xae47,
    0x4008_ae61,
    0xc008_ae67,
    0x4008_ae6a,
    0x4020_ae76,
    0x4040_ae79,
    0xae80,
    0x8090_ae81,
    0x4090_ae82,
    0x8004_ae98,
    0x4004_ae99,
    0x4068_aea3,
    0x4010_aeab,
    0x4010_aeac,
    0xaead,
    0x4020_aeae,
    0x8020_aeaf,
    0xc008_aeb0,
    0xc00c_aee0,
    0x4018_aee1,
    0x4018_aee2,
    0x4018_aee3,
    0xaece,
    0x4208_ae9b,
    0x8040_ae9f,
    0x4010_aeab,
    0x4020_ae46,
    0xc018_aec0,
    0x4020_aea5,
    0x4004_ae8b,
    0x8040_ae9f,
    0x4040_aea0,
    0x4004_aec2,
    IRQFD,
    IOEVENTFD,
];
/// Requests that take an eventfd.
const IRQFD: u64 = 0x4020_ae76;
const IOEVENTFD: u64 = 0x4040_ae79;

/// Makes the requests of a round.
pub fn throw(random: &mut Random) {
    let (buffer, arena) = (Memory::new(1 << 16), Memory::new(1 << 18));
    let mut files = vec![machine::system()];
    for _ in 0..REQUESTS {
        let file = &files[random.below(files.len() as u64) as usize];
        let request = match random.below(8) {
            0 => random.edge() & 0xffff | 0xae00,
            1 => random.any() & 0xffff_ffff,
            _ => random.one_of(&KNOWN),
        };
        let made = match request {
            0xae80 => {
                run(file, random);
                None
            }
            0x4020_ae46 => {
                region(file, &arena, random);
                None
            }
            0xae01 | 0xae41 | 0xaece => {
                let argument = if random.once_in(4) {
                    random.edge()
                } else {
                    random.below(4)
                };
                make(file.as_raw_fd(), request, argument)
            }
            0xc00c_aee0 => device(file, random),
            IRQFD | IOEVENTFD => {
                eventfd(file, request, &buffer, random);
                None
            }
            _ => {
                buffer.scribble(random, 16);
                // Requests follow pointers from here; none points to the program's own data.
                for place in [8, 16] {
                    buffer.write_long(place, argument(&buffer, random));
                }
                let argument = argument(&buffer, random);
                call(file.as_raw_fd(), request, argument);
                None
            }
        };
        files.extend(made);
        if files.len() > FILES {
            let at = 1 + random.below(files.len() as u64 - 1) as usize;
            files.swap_remove(at);
        }
    }
}

/// A small number, or an address: null, good, unaligned, near the end of the mapping, or the
/// kernel's.
fn argument(buffer: &Memory, random: &mut Random) -> u64 {
    let base = buffer.base as u64;
    match random.below(10) {
        0 => random.below(4096),
        1 => 0,
        2 => base + 512 + random.below(64),
        3 => base + buffer.len as u64 - random.below(32),
        4 => 1 << 63 | random.any(),
        _ => base,
    }
}

/// Sets a memory slot; if that succeeds, its memory is in the arena.
fn region(file: &OwnedFd, arena: &Memory, random: &mut Random) {
    let pages = arena.len as u64 / 4096;
    let (from, count) = (random.below(pages), random.below(pages));
    let inside = from + count <= pages;
    let address = match random.below(8) {
        0 => 1 << 63 | random.any(),
        1 => (arena.base as u64) + 1,
        _ if inside => arena.base as u64 + from * 4096,
        _ => u64::MAX << 52,
    };
    let guest = if random.once_in(4) {
        random.edge()
    } else {
        random.below(64) << 12
    };
    let slot = if random.once_in(8) {
        random.edge()
    } else {
        random.below(6)
    };
    let flags = if random.once_in(4) { random.edge() } else { 0 };
    let region = [
        slot & 0xffff_ffff | flags << 32,
        guest,
        count * 4096,
        address,
    ];
    call(
        file.as_raw_fd(),
        machine::SET_REGION,
        region.as_ptr() as u64,
    );
}

/// Makes a request with an eventfd or another descriptor in the right place; the eventfd is closed
/// afterwards.
fn eventfd(file: &OwnedFd, request: u64, buffer: &Memory, random: &mut Random) {
    // SAFETY: creates a descriptor.
    let made = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK)) };
    let fd = match random.below(8) {
        0 => random.edge() as u32,
        1 => file.as_raw_fd() as u32,
        _ => made.as_raw_fd() as u32,
    };
    buffer.scribble(random, 16);
    let flags = random.below(4) as u32;
    if request == IRQFD {
        [fd, random.below(200) as u32, flags, fd]
            .into_iter()
            .enumerate()
            .for_each(|(at, word)| buffer.write(4 * at, word));
    } else {
        buffer.write_long(8, 0x0a00_0000 + random.below(16));
        let len = 1 << random.below(4);
        [len, fd, flags & 1 | (flags & 2) << 1]
            .into_iter()
            .enumerate()
            .for_each(|(at, word)| buffer.write(16 + 4 * at, word));
    }
    call(file.as_raw_fd(), request, buffer.base as u64);
    let one = 1u64;
    // SAFETY: the buffer has eight bytes.
    unsafe { libc::write(made.as_raw_fd(), (&raw const one).cast(), 8) };
}

fn device(file: &OwnedFd, random: &mut Random) -> Option<OwnedFd> {
    let kind = if random.once_in(4) {
        random.edge() as u32
    } else {
        7
    };
    let flags = if random.once_in(4) {
        random.edge() as u32
    } else {
        0
    };
    let mut request = [kind, u32::MAX, flags];
    let made = call(
        file.as_raw_fd(),
        machine::CREATE_DEVICE,
        request.as_mut_ptr() as u64,
    );
    // SAFETY: the descriptor was just created.
    (made == 0 && request[1] != u32::MAX)
        .then(|| unsafe { OwnedFd::from_raw_fd(request[1] as i32) })
}

/// Runs a vCPU with `immediate_exit`, so that it returns at once.
fn run(file: &OwnedFd, random: &mut Random) {
    if let Some(page) = Memory::of_vcpu(file.as_raw_fd()) {
        page.scribble(random, 32);
        // SAFETY: the page is large enough.
        unsafe { (*page.base.cast::<Page>()).immediate_exit = 1 };
        call(
            file.as_raw_fd(),
            machine::RUN,
            if random.once_in(8) { 1 } else { 0 },
        );
    }
}
