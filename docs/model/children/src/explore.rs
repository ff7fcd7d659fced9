//! Breadth-first search over every interleaving. The first violation found has the shortest trace.
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Declares the rules of a model, each with a text that describes it.
#[macro_export]
macro_rules! rules { ($($name:ident: $text:literal,)*) => {
    #[allow(non_camel_case_types)] #[derive(Clone, Copy)] pub enum Rule { $($name),* }
    pub const RULES: &[(&str, &str)] = &[$((stringify!($name), $text)),*];
} }

/// The description of a step, and the child and call (or request) that it concerns.
pub type Label = (&'static str, u8, u8);

pub trait Model {
    type State: Clone + Hash;
    fn start(&self) -> Self::State;
    /// Pushes every successor. Returns the violation of the state itself, if it has one.
    fn next(&self, s: &Self::State, out: &mut Vec<(Label, Self::State)>) -> Option<&'static str>;
}

#[derive(Default, Clone)]
pub struct Fx(u64);
impl Hasher for Fx {
    fn finish(&self) -> u64 {
        let x = (self.0 ^ self.0 >> 32).wrapping_mul(0xd6e8feb86659fd93);
        x ^ x >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(*b as u64)
        }
    }
    fn write_u8(&mut self, x: u8) {
        self.write_u64(x as u64)
    }
    fn write_u64(&mut self, x: u64) {
        self.0 = (self.0.rotate_left(5) ^ x).wrapping_mul(0x517cc1b727220a95)
    }
    fn write_isize(&mut self, x: isize) {
        self.write_u64(x as u64)
    }
}

fn fingerprint<S: Hash>(s: &S) -> u128 {
    let (mut a, mut b) = (Fx(7), Fx(0x9e3779b97f4a7c15));
    s.hash(&mut a);
    s.hash(&mut b);
    (a.finish() as u128) << 64 | b.finish() as u128
}

pub struct Outcome {
    pub states: usize,
    pub violation: Option<(&'static str, Vec<Label>)>,
}

/// Explores all states. With `COVER` set, also lists every kind of step that occurred, so that no
/// result is "ok" only because the step cannot happen.
pub fn explore<M: Model>(m: &M) -> Outcome {
    let mut seen: HashSet<u128, BuildHasherDefault<Fx>> = HashSet::default();
    let mut came_from: Vec<(u32, Label)> = vec![(0, ("", 0, 0))];
    let first = m.start();
    seen.insert(fingerprint(&first));
    let mut level = vec![(first, 0u32)];
    let mut out = vec![];
    while !level.is_empty() {
        let mut deeper = vec![];
        for (s, id) in &level {
            out.clear();
            if let Some(what) = m.next(s, &mut out) {
                let (mut path, mut i) = (vec![], *id);
                while i != 0 {
                    path.push(came_from[i as usize].1);
                    i = came_from[i as usize].0;
                }
                path.reverse();
                return Outcome { states: seen.len(), violation: Some((what, path)) };
            }
            for (label, n) in out.drain(..) {
                if seen.insert(fingerprint(&n)) {
                    came_from.push((*id, label));
                    deeper.push((n, came_from.len() as u32 - 1));
                }
            }
        }
        level = deeper;
    }
    if std::env::var("COVER").is_ok() {
        let mut words: Vec<_> = came_from.iter().map(|c| c.1.0).collect();
        words.sort();
        words.dedup();
        println!("      steps seen: {}", words.join(" | "));
    }
    Outcome { states: seen.len(), violation: None }
}
