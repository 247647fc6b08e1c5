//! Publication, under every interleaving with `RUSTFLAGS="--cfg loom"`, and once on real threads
//! without.

use affinity::{Affinity, Index, Lock, Publication, Reader};

#[cfg(loom)]
use loom::{model, sync::Arc, sync::Mutex, thread};
#[cfg(not(loom))]
use std::{sync::Arc, sync::Mutex, thread};

#[cfg(not(loom))]
fn model(run: impl Fn()) {
    run();
}

struct Locked(Mutex<Option<Arc<Index>>>);

impl Lock<Option<Arc<Index>>> for Locked {
    fn with<R>(&self, f: impl FnOnce(&mut Option<Arc<Index>>) -> R) -> R {
        f(&mut self.0.lock().unwrap())
    }
}

fn vm(vcpus: u32) -> Arc<Index> {
    let vcpus: Vec<_> = (0..vcpus).map(Affinity::of_vcpu_id).collect();
    Arc::new(Index::new(&vcpus, 0).unwrap())
}

/// How many of the first vCPUs the index knows.
fn known(index: Option<&Arc<Index>>) -> u32 {
    index.map_or(0, |index| {
        (0..4)
            .take_while(|id| index.get(Affinity::of_vcpu_id(*id)).is_some())
            .count() as u32
    })
}

fn publication() -> Arc<Publication<Locked>> {
    Arc::new(Publication::new(Locked(Mutex::new(None))))
}

/// vCPUs are added while another looks up: it never sees fewer than before, and all once the last
/// was published.
#[test]
fn a_running_vcpu_sees_indices_in_order_and_the_last_one_in_the_end() {
    model(|| {
        let publication = publication();
        publication.publish(vm(1));
        let writer = {
            let publication = publication.clone();
            thread::spawn(move || {
                publication.publish(vm(2));
                publication.publish(vm(3));
            })
        };
        let mut reader = Reader::new();
        let first = known(reader.get(&publication));
        let second = known(reader.get(&publication));
        assert!(1 <= first && first <= second);
        writer.join().unwrap();
        assert_eq!(known(reader.get(&publication)), 3);
    });
}

/// Two VMM threads publish at once, each the index that it built under the lock of the VM's table:
/// none is lost.
#[test]
fn publishers_do_not_lose_each_others_work() {
    model(|| {
        let (publication, table) = (publication(), Arc::new(Mutex::new(0)));
        let add = |publication: Arc<Publication<Locked>>, table: Arc<Mutex<u32>>| {
            move || {
                let mut vcpus = table.lock().unwrap();
                *vcpus += 1;
                publication.publish(vm(*vcpus));
            }
        };
        let other = thread::spawn(add(publication.clone(), table.clone()));
        add(publication.clone(), table)();
        other.join().unwrap();
        assert_eq!(known(Reader::new().get(&publication)), 2);
    });
}

/// A thread that learns of a new vCPU by other means (a shared word) finds it: the publication came
/// first.
#[test]
fn what_was_published_before_a_message_is_seen_after_it() {
    #[cfg(loom)]
    use loom::sync::atomic::{AtomicBool, Ordering};
    #[cfg(not(loom))]
    use std::sync::atomic::{AtomicBool, Ordering};
    model(|| {
        let (publication, told) = (publication(), Arc::new(AtomicBool::new(false)));
        let mut reader = Reader::new();
        publication.publish(vm(1));
        reader.get(&publication);
        let writer = {
            let (publication, told) = (publication.clone(), told.clone());
            thread::spawn(move || {
                publication.publish(vm(2));
                told.store(true, Ordering::Release);
            })
        };
        if told.load(Ordering::Acquire) {
            assert_eq!(known(reader.get(&publication)), 2);
        }
        writer.join().unwrap();
    });
}

#[test]
fn the_replaced_handle_comes_back_to_the_publisher() {
    model(|| {
        let publication = publication();
        let first = vm(1);
        assert!(publication.publish(first.clone()).is_none());
        let back = publication.publish(vm(2)).unwrap();
        assert!(Arc::ptr_eq(&first, &back));
    });
}
