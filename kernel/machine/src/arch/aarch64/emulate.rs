//! Emulation of trapped instructions of programs: reads of ID registers, and instructions that
//! 32-bit programs may still use ([`compat_emulate`]).
//!
//! With FEAT_IDST, a read of an ID register is an exception of class 0x18 whose syndrome names the
//! register; without it, the read is an undefined instruction that must be fetched from the
//! program's memory. Both end in [`read`]. The policy `idreg` selects at boot which hooks an
//! undefined instruction goes through: `direct` checks a static one and takes no lock; `locked`
//! walks a list of hooks under a global lock, as Linux did until 6.1, so that a read of an ID
//! register also pays for the hooks of other instructions. The exception that names the register
//! never went through that list on Linux either (`sys64_hooks` is a constant array), so on CPUs
//! with FEAT_IDST the two policies behave alike.

use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use super::compat_emulate::{self, EMULATIONS};
use super::cpu;
use super::frame::{Frame, pstate};
use super::uaccess;
use crate::sync::Mutex;
use crossings::Kind;
use idreg::Mrs;

/// The lookup of the emulation of a trapped read: `idreg`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Without a list.
    Direct,
    /// Through a list of hooks under a lock.
    Locked,
}

impl Policy {
    /// The values of the parameter `idreg`.
    pub const NAMES: [(&'static str, Policy); 2] =
        [("direct", Policy::Direct), ("locked", Policy::Locked)];
}

/// A hook for instructions whose masked bits are equal to `value`, in a program state whose masked
/// bits are equal to `pstate_value`.
pub(super) struct Hook {
    /// The index in [`EMULATIONS`] of the emulation that it belongs to, if it can be disabled.
    pub(super) emulation: Option<usize>,
    pub(super) mask: u32,
    pub(super) value: u32,
    pub(super) pstate_mask: usize,
    pub(super) pstate_value: usize,
    /// Executes the instruction; false if it stays undefined.
    pub(super) run: fn(&mut Frame, u32) -> bool,
}

/// MRS from Op0=3, Op1=0, CRn=0, in AArch64.
const MRS: Hook = Hook {
    emulation: None,
    mask: 0xffff_f000,
    value: 0xd538_0000,
    pstate_mask: pstate::AARCH32,
    pstate_value: 0,
    run: read_by_instruction,
};

/// The hooks of 32-bit programs.
static COMPAT_HOOKS: [Hook; compat_emulate::HOOKS.len()] = compat_emulate::HOOKS;

/// The hooks of `locked`: a list that ends at the first empty entry, so that every instruction pays
/// for each hook.
type Hooks = [Option<&'static Hook>; 1 + COMPAT_HOOKS.len()];

static LIST: Mutex<Hooks> = Mutex::new([None; _]);

/// The lookup function for undefined instructions; set at boot, before programs run.
static LOOK_UP: AtomicPtr<()> = AtomicPtr::new(direct as *mut ());

type LookUp = fn(&mut Frame, u32) -> bool;

/// Selects the policy.
pub(super) fn init(policy: Policy) {
    let look_up: LookUp = match policy {
        Policy::Direct => direct,
        Policy::Locked => locked,
    };
    LOOK_UP.store(look_up as *mut (), Relaxed);
    register();
}

/// Puts the enabled hooks into the list.
pub(super) fn register() {
    let mut list = LIST.lock();
    let compat = COMPAT_HOOKS.iter().filter(|hook| hook.is_on());
    let mut hooks = core::iter::once(&MRS).chain(compat);
    list.fill_with(|| hooks.next());
}

fn look_up(frame: &mut Frame, word: u32) -> bool {
    // SAFETY: `init` and the initial value store only functions of this type.
    let look_up: LookUp = unsafe { core::mem::transmute(LOOK_UP.load(Relaxed)) };
    look_up(frame, word)
}

fn direct(frame: &mut Frame, word: u32) -> bool {
    if MRS.takes(frame, word) {
        return (MRS.run)(frame, word);
    }
    frame.is_compat() && direct_compat(frame, word)
}

#[cold]
#[inline(never)]
fn direct_compat(frame: &mut Frame, word: u32) -> bool {
    let mut hooks = COMPAT_HOOKS.iter().filter(|hook| hook.is_on());
    let hook = hooks.find(|hook| hook.takes(frame, word));
    hook.is_some_and(|hook| (hook.run)(frame, word))
}

fn locked(frame: &mut Frame, word: u32) -> bool {
    let mut found = None;
    for hook in LIST.lock().iter().map_while(|hook| *hook) {
        // Every hook is asked, as on Linux; the first that matches runs.
        if hook.takes(frame, word) && found.is_none() {
            found = Some(hook);
        }
    }
    found.is_some_and(|hook| (hook.run)(frame, word))
}

impl Hook {
    fn takes(&self, frame: &Frame, word: u32) -> bool {
        word & self.mask == self.value && frame.pstate & self.pstate_mask == self.pstate_value
    }

    fn is_on(&self) -> bool {
        self.emulation.is_none_or(|place| EMULATIONS[place].is_on())
    }
}

/// Emulates an undefined instruction. Returns false if it stays undefined.
pub(super) fn undefined(frame: &mut Frame) -> bool {
    let (pc, state) = (frame.pc(), frame.pstate);
    if frame.is_compat() {
        return undefined_compat(pc, state, frame);
    }
    if !pc.is_multiple_of(4) {
        return false;
    }
    match uaccess::load_instruction(pc) {
        Ok(word) => look_up(frame, u32::from_le(word)),
        Err(_) => false,
    }
}

/// As [`undefined`], for a 32-bit program. Out of line, so that the 64-bit path needs no stack for
/// it.
#[cold]
#[inline(never)]
fn undefined_compat(pc: usize, state: usize, frame: &mut Frame) -> bool {
    // Reading may fail: the instruction may be execute-only, or unmapped meanwhile.
    compat_emulate::instruction(pc, state).is_ok_and(|word| look_up(frame, word))
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

    fn what_32_bit_programs_have_lost_is_executed_where_it_is_on() {
        use crate::arch::PAGE_SIZE;
        use crate::mm::{self, Removed, MapRequest, Place, SpaceUser};
        const DATA: usize = 0x2000_0000;
        const SWP: usize = 2;
        let memory = SpaceUser::new(super::USER_END).unwrap();
        let request = MapRequest::anonymous(Place::Fixed(DATA), PAGE_SIZE);
        memory.map(request, &mut Removed::new()).unwrap();
        memory.clone().activate();
        // Stores r2 at the address in r3, and loads the previous value into r1: a word or a byte.
        let cases = [
            (0xe103_1092, 0, Some((0x1122_3344, 0xaabb_ccdd))),
            (0xe143_1092, 1, Some((0x33, 0x1122_dd44))),
            // A condition that does not hold, and the encoding without one.
            (0x0103_1092, 0, Some((9, 0x1122_3344))),
            (0xf103_1092, 0, None),
        ];
        let run = |look_up: LookUp, on: usize| {
            EMULATIONS[SWP].set_mode(on);
            cases.map(|(word, offset, _)| {
                memory.write(DATA, &0x1122_3344u32.to_le_bytes()).unwrap();
                let mut frame = Frame::compat(DATA, 0);
                frame.x[1..4].copy_from_slice(&[9, 0xaabb_ccdd, DATA + offset]);
                let done = look_up(&mut frame, word) && frame.pc() == DATA + 4;
                let data = uaccess::load_u32(DATA).unwrap_or(0);
                done.then_some((frame.x[1] as u32, data))
            })
        };
        let looks: [LookUp; 2] = [direct, locked];
        let on = looks.map(|look_up| run(look_up, 1));
        let off = looks.map(|look_up| run(look_up, 0));
        mm::deactivate();
        assert_eq!(on, [cases.map(|(.., found)| found); 2]);
        assert_eq!(off, [[None; 4]; 2]);
        // DMB, DSB and ISB through CP15; SETEND BE in Arm and Thumb state, and LE.
        let mixed = super::features::features().mixed_endian_el0();
        let set = |len, big: bool| if mixed { (len, big) } else { (0, !big) };
        let others = [
            (0xee07_0fba, 0, (4, false)),
            (0xee07_0f9a, 0, (4, false)),
            (0xee07_0f95, 0, (4, false)),
            (0xf101_0200, 0, set(4, true)),
            (0xb658, pstate::THUMB, set(2, true)),
            (0xf101_0000, pstate::BIG_ENDIAN, set(4, false)),
        ];
        let [big, user] = [pstate::BIG_ENDIAN, pstate::COMPAT_USER];
        let kept = pstate::of_compat(user | big);
        assert_eq!(kept, Some(if mixed { user | big } else { user }));
        for look_up in looks {
            let found = others.map(|(word, state, _)| {
                let mut frame = Frame::compat(DATA, 0);
                frame.pstate |= state;
                let done = look_up(&mut frame, word);
                (if done { frame.pc() - DATA } else { 0 }, frame.pstate & pstate::BIG_ENDIAN != 0)
            });
            assert_eq!(found, others.map(|(.., found)| found));
        }
    }
}

/// Emulates a trapped access to a system register. Returns false if it is undefined for programs.
pub(super) fn system(frame: &mut Frame, syndrome: usize) -> bool {
    Mrs::from_iss(syndrome as u32).is_some_and(|mrs| read(frame, mrs))
}

fn read_by_instruction(frame: &mut Frame, word: u32) -> bool {
    Mrs::from_instruction(word).is_some_and(|mrs| read(frame, mrs))
}

/// Emulates a read of an ID register.
fn read(frame: &mut Frame, mrs: Mrs) -> bool {
    let cpu = cpu::this();
    // SAFETY: a view is stored before the CPU runs programs, and lives forever.
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
