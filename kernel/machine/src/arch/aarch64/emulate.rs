//! Instructions of programs that trap and that the kernel executes in their stead: reads of ID
//! registers.
//!
//! With FEAT_IDST such a read is an exception of class 0x18 that carries the register; without, it
//! is an undefined instruction that has to be read from the program's memory. Both end in [`read`].
//! The policy `idreg` has settled at boot which hooks an undefined instruction meets: `direct` asks
//! a static one and takes no lock; `locked` walks a list of hooks under one global lock, as Linux
//! did until 6.1. The exception that carries the register never met that list in Linux either
//! (`sys64_hooks` is a constant array), so on CPUs with FEAT_IDST the two are alike.

use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use super::cpu;
use super::frame::{Frame, pstate};
use super::uaccess;
use crate::sync::Mutex;
use crossings::Kind;
use idreg::Mrs;

/// How a trapped read finds its emulation: `idreg`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Straight.
    Direct,
    /// By a list of hooks under a lock.
    Locked,
}

impl Policy {
    /// By the names that `idreg` takes.
    pub const NAMES: [(&'static str, Policy); 2] =
        [("direct", Policy::Direct), ("locked", Policy::Locked)];
}

/// An instruction that a hook takes: those whose masked bits agree, in a program state whose masked
/// bits agree.
struct Hook {
    mask: u32,
    value: u32,
    pstate_mask: usize,
    pstate_value: usize,
    run: fn(&mut Frame, u32) -> bool,
}

/// MRS from Op0=3, Op1=0, CRn=0, in AArch64.
const MRS: Hook = Hook {
    mask: 0xffff_f000,
    value: 0xd538_0000,
    pstate_mask: pstate::AARCH32,
    pstate_value: 0,
    run: read_by_instruction,
};

/// The hooks of `locked`: a list, so that a new one costs every instruction.
struct Hooks {
    first: &'static Hook,
    next: Option<&'static Hooks>,
}

static LIST: Mutex<Hooks> = Mutex::new(Hooks {
    first: &MRS,
    next: None,
});

/// How an undefined instruction is looked up; settled at boot, before programs run.
static LOOK_UP: AtomicPtr<()> = AtomicPtr::new(direct as *mut ());

type LookUp = fn(&mut Frame, u32) -> bool;

/// Chooses between the policies.
pub(super) fn init(policy: Policy) {
    let look_up: LookUp = match policy {
        Policy::Direct => direct,
        Policy::Locked => locked,
    };
    LOOK_UP.store(look_up as *mut (), Relaxed);
}

fn look_up(frame: &mut Frame, word: u32) -> bool {
    // SAFETY: `init` and the initial value store functions of this type only.
    let look_up: LookUp = unsafe { core::mem::transmute(LOOK_UP.load(Relaxed)) };
    look_up(frame, word)
}

fn direct(frame: &mut Frame, word: u32) -> bool {
    MRS.takes(frame, word) && (MRS.run)(frame, word)
}

fn locked(frame: &mut Frame, word: u32) -> bool {
    let hook = {
        let list = LIST.lock();
        let mut at = Some(&*list);
        let mut found = None;
        while let Some(hooks) = at {
            if hooks.first.takes(frame, word) {
                found = Some(hooks.first);
            }
            at = hooks.next;
        }
        found
    };
    hook.is_some_and(|hook| (hook.run)(frame, word))
}

impl Hook {
    fn takes(&self, frame: &Frame, word: u32) -> bool {
        word & self.mask == self.value && frame.pstate & self.pstate_mask == self.pstate_value
    }
}

/// An undefined instruction. Returns false if it stays undefined.
pub(super) fn undefined(frame: &mut Frame) -> bool {
    if frame.pstate & pstate::AARCH32 != 0 || !frame.pc().is_multiple_of(4) {
        return false;
    }
    match uaccess::load_u32(frame.pc()) {
        Ok(word) => look_up(frame, u32::from_le(word)),
        // The instruction may be executed but not read, or is gone meanwhile.
        Err(_) => false,
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn an_undefined_instruction_may_be_gone_when_it_is_read() {
        use crate::arch::PAGE_SIZE;
        use crate::mm::{self, Removed, MapRequest, Place, SpaceUser};
        /// MRS X7, ID_AA64PFR0_EL1
        const READ: u32 = 0xd538_0407;
        const AT: usize = 0x2000_0000;
        let memory = SpaceUser::new(super::USER_END).unwrap();
        let request = MapRequest::anonymous(Place::Fixed(AT), PAGE_SIZE);
        memory.map(request, &mut Removed::new()).unwrap();
        assert_eq!(memory.write(AT, &READ.to_le_bytes()), Ok(4));
        memory.clone().activate();
        let execute = |pc| {
            let mut frame = Frame::user(pc, 0, 0);
            frame.x[7] = 77;
            let done = undefined(&mut frame);
            (done, frame.pc() - pc, frame.x[7] != 77)
        };
        let there = execute(AT);
        memory.unmap(AT..AT + PAGE_SIZE, &mut Removed::new()).unwrap();
        let gone = [AT, AT + 2, super::USER_END, usize::MAX & !3].map(execute);
        mm::deactivate();
        assert_eq!((there, gone), ((true, 4, true), [(false, 0, false); 4]));
    }
}

/// A trapped access to a system register. Returns false if it is undefined for programs.
pub(super) fn system(frame: &mut Frame, syndrome: usize) -> bool {
    Mrs::from_iss(syndrome as u32).is_some_and(|mrs| read(frame, mrs))
}

fn read_by_instruction(frame: &mut Frame, word: u32) -> bool {
    Mrs::from_instruction(word).is_some_and(|mrs| read(frame, mrs))
}

/// Executes a read of an ID register.
fn read(frame: &mut Frame, mrs: Mrs) -> bool {
    let cpu = cpu::this();
    // SAFETY: a view is stored before the CPU runs programs, and lives for ever.
    let Some(value) = unsafe { cpu.view.load(Relaxed).as_ref() }.and_then(|view| view.emulate(mrs))
    else {
        return false;
    };
    // Rt 31 is the zero register: the value is discarded.
    if let Some(register) = frame.x.get_mut(usize::from(mrs.rt)) {
        *register = value as usize;
    }
    frame.skip_instruction();
    cpu.crossings().add(Kind::EmulatedId);
    true
}
