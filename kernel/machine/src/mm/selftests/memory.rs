//! Frames, heap and kernel stacks.

use alloc::vec;
use alloc::vec::Vec;

use super::super::fault::Failure;
use super::super::frame::{self, FrameRef, Owner};
use super::super::space::SpaceUser;
use super::super::vmalloc::{self, KernelStack};
use super::super::{PAGE_SIZE, huge_page};
use super::{BASE, Random, map, take_all};
use crate::arch::{KERNEL_STACK_SIZE, cpu, mmu, user_end};
use crate::errno::Errno;
use crate::selftest;
use crossings::Kind;

selftest! {
    fn frames_are_counted() {
        let frame = frame::alloc_zeroed().unwrap();
        let second = frame.clone();
        assert!(frame.meta().refs() == 2 && !frame.is_unique());
        second.write(100, b"stile");
        let mut read = [0; 6];
        frame.read(99, &mut read);
        assert_eq!(&read, b"\0stile");
        drop(second);
        assert!(frame.is_unique());
        let copy = FrameRef::new(Owner::Anonymous).unwrap();
        copy.copy_from(&frame);
        copy.fill(100..105, b'x');
        copy.read(99, &mut read);
        assert_eq!(&read, b"\0xxxxx");
    }
}

selftest! {
    fn memory_is_mapped_as_no_device() {
        let frame = frame::alloc().unwrap();
        let at = frame.phys().0;
        for (base, len) in [(at, 4), (at - 1, 2), (at - PAGE_SIZE, 3 * PAGE_SIZE)] {
            assert_eq!(vmalloc::map_device(base, len), Err(Errno::EINVAL));
        }
    }
}

selftest! {
    fn frames_all_come_back() {
        let rest = frame::free_count() % 1000;
        let before = frame::free_count();
        let mut held: Vec<FrameRef> = (0..2000 + rest).map(|_| frame::alloc().unwrap()).collect();
        let mut numbers: Vec<usize> = held.iter().map(|frame| frame.phys().0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), held.len());
        held.clear();
        // Frames in the CPU's cache are no loss.
        assert!(before.saturating_sub(frame::free_count()) <= 128, "{before} before, {} after", frame::free_count());
    }
}

selftest! {
    fn heap_blocks_keep_apart() {
        let mut random = Random(88_172_645_463_325_252);
        let mut live: Vec<Vec<u8>> = Vec::new();
        for round in 0..20_000 {
            if live.len() < 500 && random.below(5) < 3 {
                let bound = [60, 300, 3000, 20_000][random.below(4)];
                let size = 1 + random.below(bound);
                live.push(vec![round as u8; size]);
            } else if !live.is_empty() {
                let block = live.swap_remove(random.below(live.len()));
                assert!(block.iter().all(|&byte| byte == block[0]));
            }
        }
    }
}

selftest! {
    fn kernel_stacks_have_guards() {
        let stacks: Vec<KernelStack> = (0..80).map(|_| KernelStack::new().unwrap()).collect();
        for stack in &stacks {
            assert_eq!(stack.range().len(), KERNEL_STACK_SIZE);
            assert!(stack.range().start & KERNEL_STACK_SIZE != 0);
        }
    }
}

selftest! {
    fn other_cpus_hear_of_kernel_stacks_in_batches() {
        const STACKS: usize = 400;
        let fences = || {
            let counts = cpu::this().crossings();
            counts.get(Kind::FenceBroadcastPage) + counts.get(Kind::FenceBroadcastAll)
        };
        let before = fences();
        let stacks: Vec<KernelStack> = (0..STACKS).map(|_| KernelStack::new().unwrap()).collect();
        drop(stacks);
        assert!(!mmu::keeps_mappings() || fences() - before < STACKS as u64 / 4);
    }
}

selftest! {
    fn huge_pages_come_back_after_all_memory_was_taken() {
        drop(take_all());
        let space = SpaceUser::new(user_end()).unwrap();
        // Each write merges a number of single frames, until all are merged.
        let joins = frame::free_count() / (frame::CHAINS * huge_page::SIZE / PAGE_SIZE) + 1;
        let wanted = 8;
        let range = BASE..BASE + (joins + wanted) * huge_page::SIZE;
        map(&space, BASE, range.len() / PAGE_SIZE, 3).unwrap();
        for at in range.clone().step_by(huge_page::SIZE) {
            assert_eq!(space.write(at, &[1]), Ok(1));
        }
        let last = range.end - wanted * huge_page::SIZE..range.end;
        assert_eq!(space.usage(last.clone()).huge * PAGE_SIZE, last.len());
    }
}

selftest! {
    fn a_frame_with_too_many_holders_is_never_freed() {
        let frame = FrameRef::zeroed(Owner::Kernel).unwrap();
        frame.meta().set_refs(u32::MAX / 2);
        // The last handle that is counted, and one that is not.
        let more = [frame.clone(), frame.clone()];
        assert!(frame.meta().refs() > u32::MAX / 2 + 2);
        let kept = frame.meta().refs();
        drop(more);
        assert_eq!(frame.meta().refs(), kept);
        // Only this handle is left: free the frame.
        frame.meta().set_refs(1);
    }
}

selftest! {
    fn only_what_another_try_may_bring_is_tried_again() {
        for error in [Errno::ENXIO, Errno::EIO, Errno::EUCLEAN, Errno::EROFS, Errno::EPERM] {
            assert_eq!(Failure::of(error), Failure::BeyondEnd);
        }
        assert_eq!(Failure::of(Errno::ENOMEM), Failure::NoMemory);
        assert_eq!(Failure::of(Errno::EAGAIN), Failure::Absent);
    }
}

selftest! {
    fn the_kernel_has_a_frame_where_files_get_none() {
        let mut frames = Vec::with_capacity(frame::free_count());
        while let Ok(frame) = frame::alloc() {
            frames.push(frame);
        }
        assert!(frame::alloc_kernel().is_ok());
    }
}
