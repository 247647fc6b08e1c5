use atomics::{AtomicU64, Ordering::*, array};

const CPUS_PER_WORD: usize = u64::BITS as usize;

/// A set of CPUs that only grows.
#[derive(Debug)]
pub struct CpuSet<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> CpuSet<WORDS> {
    /// An empty set.
    pub fn new() -> Self {
        CpuSet(array!(AtomicU64::new(0)))
    }

    /// Adds a CPU. If another CPU does not find it here after a full fence, the added CPU sees,
    /// after a full fence of its own, the earlier stores of the other CPU.
    pub fn insert(&self, cpu: usize) {
        self.0[cpu / CPUS_PER_WORD].fetch_or(1 << (cpu % CPUS_PER_WORD), Relaxed);
    }

    /// Calls `act` with each CPU in the set now, except `own`. This is a nested loop, because
    /// chained iterators take longer.
    #[inline(always)]
    pub fn each_other(&self, own: usize, mut act: impl FnMut(usize)) {
        for (index, word) in self.0.iter().enumerate() {
            let mut left = word.load(Relaxed);
            if own / CPUS_PER_WORD == index {
                left &= !(1 << (own % CPUS_PER_WORD));
            }
            while left != 0 {
                act(index * CPUS_PER_WORD + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }
}
