//! QEMU's side: registered callbacks and QEMU's functions.

use crate::decode::{Isa, Ring};
use crate::level;
use crate::lines::{Access, Lines};
use crate::masked::{LONG, Masked};
use crate::options::Options;
use crate::phases::Phases;
use crate::qemu::{self, Counter, Id, Info, Insn, Tb};
use crate::stack::Stacks;
use crate::tally::{self, Tally};
use crate::trace::{Instruction, Trace};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// The interface that the plugin was written for; QEMU looks it up by name.
#[unsafe(no_mangle)]
static qemu_plugin_version: c_int = qemu::VERSION;

/// The plugin, from its installation on.
struct Plugin {
    options: Options,
    isa: Isa,
    /// One counter for each pattern and ring, then one a ring for all instructions, and at the end
    /// one a level.
    counters: Vec<Tally>,
    /// Not zero while instructions are to be kept.
    tracing: Counter,
    phases: Mutex<Phases>,
    lines: Mutex<Lines>,
    trace: Mutex<Trace>,
    masked: Mutex<Masked>,
    stacks: Mutex<Stacks>,
    /// The kernel's instructions since it last took interrupts, where these are counted.
    stretch: Counter,
    /// Not zero after the kernel has run, until a program runs, where stacks are noted.
    in_kernel: Counter,
    /// Instructions as translated, by address, word and ring: the callbacks' data, which lives for
    /// ever.
    instructions: Mutex<HashMap<(u64, u32, Ring), &'static Instruction>>,
    /// The tag of the phase now, 0 before the first.
    phase: AtomicU32,
}

/// How many exception levels there are.
const LEVELS: usize = 4;

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// The plugin, which is there before the first callback.
fn plugin() -> &'static Plugin {
    PLUGIN.get().expect("callbacks come after the installation")
}

/// Locks, also after a panic elsewhere: figures then are incomplete, and the panic was reported.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Plugin {
    fn new(options: Options, isa: Isa, cpus: usize) -> Self {
        let counters = (isa.patterns.len() + 1) * Ring::ALL.len() + LEVELS;
        Self {
            options,
            isa,
            counters: (0..counters).map(|_| Tally::new(cpus)).collect(),
            tracing: tally::counter(),
            phases: Mutex::default(),
            lines: Mutex::default(),
            trace: Mutex::default(),
            masked: Mutex::default(),
            stacks: Mutex::default(),
            stretch: tally::counter(),
            in_kernel: tally::counter(),
            instructions: Mutex::default(),
            phase: AtomicU32::new(0),
        }
    }

    /// Where the counters of levels begin.
    fn levels(&self) -> usize {
        self.counters.len() - LEVELS
    }

    /// The name of the counter at a place, as `kind.ring`, or `instructions.elN`.
    fn name(&self, place: usize) -> String {
        if let Some(level) = place.checked_sub(self.levels()) {
            return format!("instructions.el{level}");
        }
        let (kind, ring) = (
            place / Ring::ALL.len(),
            Ring::ALL[place % Ring::ALL.len()].name(),
        );
        let kind = self
            .isa
            .patterns
            .get(kind)
            .map_or("instructions", |pattern| pattern.name);
        format!("{kind}.{ring}")
    }

    /// The counter of a kind, by its place among the patterns, in a ring.
    fn counter(&self, kind: usize, ring: Ring) -> &Tally {
        &self.counters[kind * Ring::ALL.len() + ring as usize]
    }

    fn totals(&self) -> Vec<u64> {
        self.counters.iter().map(Tally::total).collect()
    }

    /// The level of the code in a block, which is translated for the CPU that is about to execute
    /// it, and executed at that level only; and whether the program counter says where.
    fn level(&self, begin: u64) -> (u32, bool) {
        let level = level::current().expect("QEMU has the registers cpsr or priv, and pc");
        (self.isa.level(level, begin), level.pc == begin)
    }

    /// Registers the actions for each execution of an instruction, at this level. QEMU does them in
    /// this order.
    fn instrument(&'static self, insn: *mut Insn, level: u32) {
        // SAFETY: the handle is valid during the translation callback.
        let (address, word) = unsafe { (qemu::qemu_plugin_insn_vaddr(insn), word(insn)) };
        let ring = Isa::ring(level);
        if let Some(tag) = self.isa.marker(word) {
            let data = tag as usize as *mut c_void;
            // SAFETY: as above; the callback takes its data as a number.
            unsafe {
                qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, qemu::NO_REGISTERS, data)
            };
        }
        let all = self.options.instructions.then_some(self.isa.patterns.len());
        for kind in self.isa.matches(word).chain(all) {
            self.counter(kind, ring).count(insn);
        }
        if self.options.levels {
            self.counters[self.levels() + level as usize].count(insn);
        }
        if self.options.lines && ring == Ring::Kernel {
            let data = address as *mut c_void;
            // SAFETY: as above.
            unsafe {
                let (flags, kinds) = (qemu::NO_REGISTERS, qemu::READS_AND_WRITES);
                qemu::qemu_plugin_register_vcpu_mem_cb(insn, accessed, flags, kinds, data);
            }
        }
        if self.options.lines && ring == Ring::Kernel && self.isa.leaves(word) {
            let data = std::ptr::null_mut();
            // SAFETY: as above; the callback takes no data.
            unsafe {
                qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, left, qemu::NO_REGISTERS, data);
            }
        }
        if self.options.trace.is_some() {
            let data = self.instruction(insn, address, word, ring) as *const Instruction;
            // SAFETY: as above; the data lives for ever.
            unsafe {
                qemu::qemu_plugin_register_vcpu_insn_exec_cond_cb(
                    insn,
                    executed,
                    qemu::NO_REGISTERS,
                    qemu::NOT_EQUAL,
                    self.tracing,
                    0,
                    data.cast_mut().cast(),
                );
            }
        }
    }

    /// Says that stretches of the kernel with interrupts masked are to be measured in a block.
    fn instrument_masked(&'static self, tb: *mut Tb) {
        // SAFETY: the handles are valid during the translation callback; places are those there
        // are.
        unsafe {
            let len = qemu::qemu_plugin_tb_n_insns(tb);
            let begin = qemu::qemu_plugin_tb_vaddr(tb);
            let is_kernel = Isa::ring(self.level(begin).0) == Ring::Kernel;
            if is_kernel {
                let (stretch, flags) = (self.stretch, qemu::NO_REGISTERS);
                qemu::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
                    tb,
                    qemu::ADD,
                    stretch,
                    len as u64,
                );
                // The upper bits of an address are all as the highest that is kept.
                let data = (begin << 8 | len.min(255) as u64) as *mut c_void;
                qemu::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                    tb,
                    in_stretch,
                    flags,
                    qemu::AT_LEAST,
                    stretch,
                    LONG,
                    data,
                );
            }
            for place in 0..len {
                let insn = qemu::qemu_plugin_tb_get_insn(tb, place);
                let word = word(insn);
                let flags = qemu::NO_REGISTERS;
                if is_kernel && self.isa.opens(word) {
                    let data = qemu::qemu_plugin_insn_vaddr(insn) as *mut c_void;
                    qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, opened, flags, data);
                }
                if self.isa.marker(word).is_some_and(|tag| tag != 0) {
                    let data = std::ptr::null_mut();
                    qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, started, flags, data);
                }
            }
        }
    }

    /// Says that the depth of the stack is to be noted in a block.
    fn instrument_stack(&'static self, tb: *mut Tb) {
        let (flags, none) = (qemu::READS_REGISTERS, std::ptr::null_mut());
        // SAFETY: the handles are valid during the translation callback; places are those there
        // are.
        unsafe {
            let begin = qemu::qemu_plugin_tb_vaddr(tb);
            match Isa::ring(self.level(begin).0) {
                Ring::Kernel => {
                    let data = begin as *mut c_void;
                    if !self
                        .isa
                        .lacks_stack(word(qemu::qemu_plugin_tb_get_insn(tb, 0)))
                    {
                        qemu::qemu_plugin_register_vcpu_tb_exec_cb(tb, on_stack, flags, data);
                    }
                    return;
                }
                Ring::Firmware => return,
                Ring::User => {}
            }
            let (condition, counter) = (qemu::NOT_EQUAL, self.in_kernel);
            qemu::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                tb, continued, flags, condition, counter, 0, none,
            );
            for place in 0..qemu::qemu_plugin_tb_n_insns(tb) {
                let insn = qemu::qemu_plugin_tb_get_insn(tb, place);
                if self.isa.calls(word(insn)) {
                    qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, called, flags, none);
                }
            }
        }
    }

    fn set_in_kernel(&self, on: bool) {
        // SAFETY: the counter is ours, and CPU 0 is the only one.
        unsafe { qemu::qemu_plugin_u64_set(self.in_kernel, 0, on.into()) };
    }

    /// The record of an instruction, made when it is first seen.
    fn instruction(
        &self,
        insn: *const Insn,
        address: u64,
        word: u32,
        ring: Ring,
    ) -> &'static Instruction {
        lock(&self.instructions)
            .entry((address, word, ring))
            .or_insert_with(|| {
                // SAFETY: the handle is valid now; the string is ours to free, and null where QEMU
                // has no disassembler.
                let text = unsafe {
                    let string = qemu::qemu_plugin_insn_disas(insn);
                    let text = if string.is_null() {
                        String::new()
                    } else {
                        CStr::from_ptr(string).to_string_lossy().into_owned()
                    };
                    qemu::free(string.cast());
                    text
                };
                Box::leak(Box::new(Instruction {
                    address,
                    word,
                    ring,
                    text,
                }))
            })
    }

    fn set_tracing(&self, on: bool) {
        // SAFETY: the counter is ours, and CPU 0 is the only one when there is tracing.
        unsafe { qemu::qemu_plugin_u64_set(self.tracing, 0, on.into()) };
    }

    /// Writes all figures to the file.
    fn report(&self) -> std::io::Result<()> {
        if self.options.masked {
            return std::fs::write(&self.options.out, lock(&self.masked).to_json());
        }
        if self.options.stack {
            return std::fs::write(&self.options.out, lock(&self.stacks).to_json());
        }
        let mut phases = lock(&self.phases);
        phases.close(self.totals());
        let mut text = phases.to_json(|place| self.name(place));
        text += &lock(&self.lines).to_json();
        text += &lock(&self.trace).to_json();
        std::fs::write(&self.options.out, text)
    }
}

/// The bytes of an instruction, or its first four.
///
/// # Safety
/// The handle is valid: this is called during the translation callback.
unsafe fn word(insn: *const Insn) -> u32 {
    let mut bytes = [0; 4];
    // SAFETY: guaranteed by the caller; the buffer is as long as said.
    unsafe { qemu::qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), bytes.len()) };
    u32::from_le_bytes(bytes)
}

extern "C" fn translated(_id: Id, tb: *mut Tb) {
    if plugin().options.masked {
        return plugin().instrument_masked(tb);
    }
    if plugin().options.stack {
        return plugin().instrument_stack(tb);
    }
    // SAFETY: the handle is valid during the callback, and the places are those it has.
    unsafe {
        let begin = qemu::qemu_plugin_tb_vaddr(tb);
        let (level, is_told) = plugin().level(begin);
        if plugin().options.trace.is_some() {
            let (flags, condition) = (qemu::READS_REGISTERS, qemu::NOT_EQUAL);
            let known = if is_told { begin } else { 0 };
            let (tracing, data) = (plugin().tracing, known as *mut c_void);
            qemu::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                tb, entered, flags, condition, tracing, 0, data,
            );
        }
        for place in 0..qemu::qemu_plugin_tb_n_insns(tb) {
            plugin().instrument(qemu::qemu_plugin_tb_get_insn(tb, place), level);
        }
    }
}

/// A block executes whose instructions are kept; 0 is a block whose address is not known.
extern "C" fn entered(_cpu: c_uint, begin: *mut c_void) {
    let begin = begin as u64;
    let pc = level::pc().filter(|_| begin != 0).unwrap_or(begin);
    lock(&plugin().trace).enter(begin, pc);
}

/// A marker executes, and is itself the first instruction of its phase.
extern "C" fn marked(_cpu: c_uint, tag: *mut c_void) {
    let (plugin, tag) = (plugin(), tag as usize as u32);
    plugin.phase.store(tag, Ordering::Relaxed);
    let before = lock(&plugin.phases).enter(tag, plugin.totals());
    if let Some(trace) = plugin.options.trace {
        plugin.set_tracing(trace.keeps(tag, before));
    }
}

/// A block executes in a long stretch.
extern "C" fn in_stretch(_cpu: c_uint, data: *mut c_void) {
    let (block, len) = (data as i64 >> 8, data as u64 & 0xff);
    lock(&plugin().masked).note(block as u64, len);
}

/// The kernel takes interrupts.
extern "C" fn opened(_cpu: c_uint, address: *mut c_void) {
    let plugin = plugin();
    // SAFETY: the counter is ours, and CPU 0 is the only one.
    let instructions = unsafe {
        let instructions = qemu::qemu_plugin_u64_sum(plugin.stretch);
        qemu::qemu_plugin_u64_set(plugin.stretch, 0, 0);
        instructions
    };
    if instructions >= LONG {
        lock(&plugin.masked).end(instructions, address as u64);
    }
}

/// A program starts.
extern "C" fn started(_cpu: c_uint, _data: *mut c_void) {
    lock(&plugin().masked).start();
}

/// A block of the kernel executes.
extern "C" fn on_stack(_cpu: c_uint, begin: *mut c_void) {
    if let Some(pointer) = level::stack() {
        lock(&plugin().stacks).note(begin as u64, pointer);
        plugin().set_in_kernel(true);
    }
}

/// A program continues after the kernel has run.
extern "C" fn continued(_cpu: c_uint, _data: *mut c_void) {
    lock(&plugin().stacks).leave();
    plugin().set_in_kernel(false);
}

/// A program makes a system call.
extern "C" fn called(_cpu: c_uint, _data: *mut c_void) {
    if let Some(number) = level::call() {
        lock(&plugin().stacks).call(number);
    }
}

/// The kernel returns from an exception.
extern "C" fn left(_cpu: c_uint, _data: *mut c_void) {
    lock(&plugin().lines).leave();
}

extern "C" fn accessed(_cpu: c_uint, info: c_uint, address: u64, instruction: *mut c_void) {
    let plugin = plugin();
    let tag = plugin.phase.load(Ordering::Relaxed);
    if tag == 0 {
        return;
    }
    // SAFETY: called from a memory callback, whose handles these are.
    let (physical, store, bytes) = unsafe {
        let hardware = qemu::qemu_plugin_get_hwaddr(info, address);
        if hardware.is_null() || qemu::qemu_plugin_hwaddr_is_io(hardware) {
            return;
        }
        (
            qemu::qemu_plugin_hwaddr_phys_addr(hardware),
            qemu::qemu_plugin_mem_is_store(info),
            1 << qemu::qemu_plugin_mem_size_shift(info),
        )
    };
    let access = Access {
        physical,
        address,
        instruction: instruction as u64,
        bytes,
        store,
    };
    lock(&plugin.lines).note(tag, &access);
}

extern "C" fn executed(_cpu: c_uint, instruction: *mut c_void) {
    let plugin = plugin();
    // SAFETY: this is what was registered, and it lives for ever.
    let instruction = unsafe { &*instruction.cast_const().cast::<Instruction>() };
    let limit = plugin.options.trace.map_or(0, |trace| trace.limit);
    if !lock(&plugin.trace).keep(instruction, limit) {
        plugin.set_tracing(false);
    }
}

extern "C" fn ended(_id: Id, _data: *mut c_void) {
    let plugin = plugin();
    if let Err(error) = plugin.report() {
        log(&format!("{}: {error}", plugin.options.out.display()));
    }
}

/// Says something in QEMU's log.
fn log(text: &str) {
    let line = CString::new(format!("counter: {text}\n")).unwrap_or_default();
    // SAFETY: the string lives through the call.
    unsafe { qemu::qemu_plugin_outs(line.as_ptr()) };
}

/// Reads the arguments and makes the plugin; the error is a sentence.
///
/// # Safety
/// The arguments are those of `qemu_plugin_install`.
unsafe fn prepare(
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> Result<Plugin, String> {
    // SAFETY: the caller's promise: QEMU's strings, and that many of them.
    let (target, cpus, words) = unsafe {
        let words =
            (0..argc as usize).map(|place| CStr::from_ptr(*argv.add(place)).to_string_lossy());
        let target = CStr::from_ptr((*info).target_name).to_string_lossy();
        (target, (*info).cpus as usize, words.collect::<Vec<_>>())
    };
    let isa = Isa::of_target(&target).ok_or(format!("{target}: no such target here"))?;
    let options = Options::parse(words.iter().map(|word| &**word))?;
    if (options.trace.is_some() || options.masked || options.stack) && cpus > 1 {
        return Err("trace, masked and stack need -smp 1".into());
    }
    Ok(Plugin::new(options, isa, cpus))
}

/// Called by QEMU when it loads the plugin; not zero says that it cannot be used.
///
/// # Safety
/// Called by QEMU with what its interface says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: passed on.
    let plugin = match unsafe { prepare(info, argc, argv) } {
        Ok(plugin) => plugin,
        Err(error) => {
            eprintln!("counter: {error}");
            return 1;
        }
    };
    if PLUGIN.set(plugin).is_err() {
        eprintln!("counter: loaded twice");
        return 1;
    }
    // SAFETY: the callbacks have the types that the interface asks for.
    unsafe {
        qemu::qemu_plugin_register_vcpu_init_cb(id, level::started);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu::qemu_plugin_register_atexit_cb(id, ended, std::ptr::null_mut());
    }
    0
}
