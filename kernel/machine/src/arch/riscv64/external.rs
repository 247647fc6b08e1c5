//! Device interrupts: through the PLIC, through an APLIC and IMSICs, or through only an APLIC. The
//! boot hart handles all of them.

use dtoolkit::Node;
use dtoolkit::fdt::{Fdt, FdtNode};

use super::aia::{Aia, Delivery};
use super::plic::Plic;
use super::{features, kernel_map};
use crate::fdt;
use crate::sync::Mutex;

enum Controller {
    None,
    Plic(Plic),
    Aia(Aia),
}

/// Upper bound for the numbers of sources with a handler.
const SOURCES: usize = 128;
/// The number of the supervisor external interrupt, by which a controller's node names the
/// interrupt that it raises on a hart.
const SUPERVISOR_EXTERNAL: u32 = 9;

static CONTROLLER: Mutex<Controller> = Mutex::new(Controller::None);
static HANDLERS: Mutex<[Handler; SOURCES]> = Mutex::new([None; SOURCES]);

/// The handler of a source.
type Handler = Option<fn()>;

/// The supported controllers.
const PLIC: [&str; 2] = ["riscv,plic0", "sifive,plic-1.0.0"];
const APLIC: [&str; 1] = ["riscv,aplic"];
const IMSIC: [&str; 1] = ["riscv,imsics"];

/// Finds the controller in `tree` and routes its interrupts to this hart, whose ID is `hart`.
pub(super) fn init(tree: Fdt, hart: usize) {
    let registers = |node: FdtNode| kernel_map::device(fdt::regions(node).next()?);
    let plic = fdt::find(tree, &PLIC).find_map(|node| {
        let context = context(tree, &node, hart)?;
        Some(Controller::Plic(Plic::new(registers(node)?, context)))
    });
    // A domain without child domains is the supervisor's.
    let leaf = |node: &FdtNode| fdt::bytes(node, "riscv,children").is_none();
    let aplic = || {
        let node = fdt::find(tree, &APLIC).find(leaf)?;
        let by_message = fdt::find(tree, &IMSIC).find_map(|imsic| context(tree, &imsic, hart));
        let (delivery, index) = match by_message {
            Some(index) => (Delivery::Message, index),
            None => (Delivery::Direct, context(tree, &node, hart)?),
        };
        Some(Controller::Aia(Aia::new(
            registers(node)?,
            delivery,
            index as u32,
        )))
    };
    match plic.or_else(aplic) {
        Some(controller) => *CONTROLLER.lock() = controller,
        None => crate::log!("no interrupt controller that is known: devices cannot interrupt"),
    }
}

/// The index of the supervisor external interrupt of hart `hart` among those that `node` raises.
fn context(tree: Fdt, node: &FdtNode, hart: usize) -> Option<usize> {
    let own = features::harts(tree).find(|node| features::hart_number(*node) == Some(hart))?;
    let handle = fdt::number(&own.children().next()?, "phandle")? as u32;
    let mut cells = fdt::cells(node, "interrupts-extended");
    let mut pairs = core::iter::from_fn(|| Some((cells.next()?, cells.next()?)));
    pairs.position(|pair| pair == (handle, SUPERVISOR_EXTERNAL))
}

/// The first interrupt source in a device's node.
pub fn of_node(node: &FdtNode) -> Option<u32> {
    fdt::cells(node, "interrupts").next()
}

/// Registers `handler` for source `source`, which [`enable`] enables.
pub fn register(source: u32, handler: fn()) {
    if let Some(slot) = HANDLERS.lock().get_mut(source as usize) {
        *slot = Some(handler);
    }
}

/// Enables source `source`.
pub fn enable(source: u32) {
    match &*CONTROLLER.lock() {
        Controller::None => {}
        Controller::Plic(plic) => plic.enable(source),
        Controller::Aia(aia) => aia.enable(source),
    }
}

fn claim() -> Option<u32> {
    match &*CONTROLLER.lock() {
        Controller::None => None,
        Controller::Plic(plic) => plic.claim(),
        Controller::Aia(aia) => aia.claim(),
    }
}

fn complete(source: u32) {
    match &*CONTROLLER.lock() {
        Controller::None => {}
        Controller::Plic(plic) => plic.complete(source),
        Controller::Aia(aia) => aia.complete(source),
    }
}

/// Handles all pending sources.
pub(super) fn handle() {
    while let Some(source) = claim() {
        let handler = HANDLERS.lock().get(source as usize).copied().flatten();
        match handler {
            Some(handler) => handler(),
            None => crate::log!("interrupt {source} has no handler"),
        }
        complete(source);
    }
}
