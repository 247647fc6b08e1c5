//! The file of a virtual CPU, and the requests of its VMM.

use alloc::sync::Arc;

use vgic::Interface;

use super::directory::Reader;
use super::stats::Statistics;
use super::uapi::{self, GuestDebug, OneRegister};
use super::vcpu::{State, Vcpu};
use super::vm::Machine;
use super::{add_file, attributes, events, registers};
use crate::arch::virt::{Guest, controller};
use crate::errno::{Errno, Result};
use crate::fs::file::{File, FileOps, Memory};
use crate::mm::frame::FrameRef;
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::mm::vma::PageSource;

/// The number of pages that a VMM maps: `struct kvm_run`, and the machine's ring of coalesced
/// writes (KVM_COALESCED_MMIO_PAGE_OFFSET).
pub const PAGES: usize = 2;
pub const RING: usize = 1;

/// The file of a virtual CPU.
pub struct Handle {
    machine: Arc<Machine>,
    vcpu: Arc<Vcpu>,
}

impl Handle {
    /// A file for a virtual CPU of this machine.
    pub fn new(machine: Arc<Machine>, vcpu: Arc<Vcpu>) -> Self {
        Handle { machine, vcpu }
    }

    fn one_register(&self, state: &mut State, argument: usize, set: bool) -> Result<usize> {
        let register: OneRegister = UserPtr::new(argument).read()?;
        let address = register.address as usize;
        // A CPU_ON by another virtual CPU takes effect before the VMM accesses registers.
        self.vcpu.begin(state);
        match set {
            true => registers::set(&self.machine, &self.vcpu, state, register.id, address)?,
            false => registers::get(&self.machine, state, register.id, address)?,
        }
        Ok(0)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // The directory holds the virtual CPU, so the virtual CPU must not hold the directory.
        self.vcpu.state.lock().reader = Reader::new();
    }
}

impl PageSource for Handle {
    fn page(&self, index: usize, write: bool) -> Result<FrameRef> {
        match index {
            0 => self.vcpu.page.source.page(0, write),
            RING => self.machine.ring.source.page(0, write),
            _ => Err(Errno::ENXIO),
        }
    }

    fn len_pages(&self) -> usize {
        PAGES
    }

    fn object(&self) -> usize {
        self.vcpu.page.source.object()
    }
}

impl FileOps for Handle {
    fn is_stream(&self) -> bool {
        true
    }

    fn memory(&self) -> Memory<'_> {
        Memory::Pages(self)
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        if !self.machine.is_mine() {
            return Err(Errno::EIO);
        }
        let vcpu = &*self.vcpu;
        let mut state = vcpu.state.lock_killable()?;
        let state = &mut *state;
        match request {
            uapi::ARM_VCPU_INIT => {
                vcpu.init(&self.machine, state, UserPtr::new(argument).read()?)?;
                return Ok(0);
            }
            uapi::GET_MP_STATE => {
                UserPtr::new(argument).write(&vcpu.power())?;
                return Ok(0);
            }
            uapi::SET_MP_STATE => {
                return vcpu.set_power(UserPtr::new(argument).read()?).map(|()| 0);
            }
            uapi::SET_SIGNAL_MASK => {
                state.mask = read_mask(argument)?;
                return Ok(0);
            }
            uapi::GET_VCPU_EVENTS => {
                UserPtr::new(argument).write(&events::get(&state.guest))?;
                return Ok(0);
            }
            uapi::SET_VCPU_EVENTS => {
                events::set(state, &UserPtr::new(argument).read()?)?;
                return Ok(0);
            }
            uapi::SET_GUEST_DEBUG => {
                debug(&mut state.guest, &UserPtr::new(argument).read()?)?;
                return Ok(0);
            }
            uapi::SET_DEVICE_ATTR | uapi::GET_DEVICE_ATTR | uapi::HAS_DEVICE_ATTR => {
                let wanted = UserPtr::new(argument).read()?;
                return attributes::ioctl(&self.machine, state, request, &wanted);
            }
            uapi::GET_STATS_FD => {
                return add_file(
                    "kvm-vcpu-stats",
                    try_arc(Statistics::Vcpu(self.vcpu.clone()))?,
                );
            }
            _ => {}
        }
        let known = [
            uapi::RUN,
            uapi::GET_ONE_REG,
            uapi::SET_ONE_REG,
            uapi::GET_REG_LIST,
            uapi::FINALIZE,
        ];
        if !known.contains(&request) {
            return Err(Errno::EINVAL);
        }
        if request == uapi::RUN && argument != 0 {
            return Err(Errno::EINVAL);
        }
        if state.init.is_none() {
            return Err(Errno::ENOEXEC);
        }
        match request {
            uapi::RUN => {
                // Finalizing is permanent, so nothing is checked once the interface exists.
                if state.interface.is_none() {
                    state.check_final()?;
                }
                if state.interface.is_none()
                    && let Some((_, place)) = self.machine.begin(&self.vcpu)?
                {
                    let lists = controller::list_registers();
                    state.interface = Some(Interface::new(place, lists));
                    state.guest.controller.present = true;
                    state.place = place;
                }
                vcpu.run(&self.machine, state)
            }
            uapi::GET_REG_LIST => {
                state.check_final()?;
                registers::list(state, argument)
            }
            uapi::FINALIZE => match (UserPtr::<u32>::new(argument).read()?, &mut state.guest.sve) {
                (uapi::FEATURE_SVE, Some(sve)) => sve.finalize().map(|()| 0),
                _ => Err(Errno::EINVAL),
            },
            _ => self.one_register(state, argument, request == uapi::SET_ONE_REG),
        }
    }
}

/// The signals at a VMM's address (`struct kvm_signal_mask`); None for address 0.
fn read_mask(argument: usize) -> Result<Option<u64>> {
    if argument == 0 {
        return Ok(None);
    }
    let len: u32 = UserPtr::new(argument).read()?;
    if len as usize != size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    let low: u32 = UserPtr::new(argument + 4).read()?;
    let high: u32 = UserPtr::new(argument + 8).read()?;
    Ok(Some(u64::from(high) << 32 | u64::from(low)))
}

/// Applies the VMM's settings for debugging its guest (KVM_SET_GUEST_DEBUG).
fn debug(guest: &mut Guest, wanted: &GuestDebug) -> Result<()> {
    let known =
        uapi::DEBUG_ENABLE | uapi::DEBUG_STEP | uapi::DEBUG_BREAK_INSTRUCTIONS | uapi::DEBUG_POINTS;
    if wanted.control & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let has = |bit| wanted.control & bit != 0;
    if !has(uapi::DEBUG_ENABLE) {
        guest.debug.leave_to_guest();
        return Ok(());
    }
    let points = |values: [u64; 16], controls: [u64; 16]| {
        core::array::from_fn(|at| (values[at], controls[at]))
    };
    let points = match has(uapi::DEBUG_POINTS) {
        true => Some(try_arc((
            points(wanted.break_values, wanted.break_controls),
            points(wanted.watch_values, wanted.watch_controls),
        ))?),
        false => None,
    };
    guest.debug.take_for_vmm(has(uapi::DEBUG_STEP), points);
    Ok(())
}
