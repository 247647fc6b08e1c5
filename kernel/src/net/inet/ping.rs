//! The groups that may open ping sockets (`net.ipv4.ping_group_range`).

use super::raw::Raw;
use crate::errno::{Errno, Result};
use crate::net::socket::Socket;
use crate::sync::Mutex;
use crate::task::current;
use alloc::sync::Arc;

/// The first and the last group whose members may open them; by default there are none.
static GROUPS: Mutex<[u32; 2]> = Mutex::new(NOBODY);
const NOBODY: [u32; 2] = [1, 0];

/// The first and the last group.
pub fn groups() -> [u32; 2] {
    *GROUPS.lock()
}

/// Sets the groups; there are none if the last is below the first.
pub fn set_groups([first, last]: [u32; 2]) {
    *GROUPS.lock() = if last < first { NOBODY } else { [first, last] };
}

/// Creates a ping socket; EACCES.
pub fn new(domain: u32, protocol: u32) -> Result<Arc<dyn Socket>> {
    let [first, last] = groups();
    let range = first..=last;
    let may = current().with_credentials(|who| {
        range.contains(&who.egid) || who.groups.iter().any(|group| range.contains(group))
    });
    if may {
        Ok(Raw::ping(domain, protocol)?)
    } else {
        Err(Errno::EACCES)
    }
}
