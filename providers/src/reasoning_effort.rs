//! What a model is told at each level of thinking: data, not code.

use loopwright_core::model::ThinkingLevel;

/// The words by which a model is told how much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReasoningEfforts {
    /// What switches its thinking off; `None` if it does not think unless it is told to, or cannot
    /// be kept from it.
    pub off: Option<&'static str>,
    /// What it is told from [`Minimal`](ThinkingLevel::Minimal) to [`XHigh`](ThinkingLevel::XHigh):
    /// of what it knows, the nearest.
    pub levels: [&'static str; 5],
}

impl ReasoningEfforts {
    pub(crate) const LOW_TO_HIGH: ReasoningEfforts =
        ReasoningEfforts::new(["low", "low", "medium", "high", "high"]);
    pub(crate) const LOW_TO_XHIGH: ReasoningEfforts =
        ReasoningEfforts::new(["low", "low", "medium", "high", "xhigh"]);
    pub(crate) const MINIMAL_TO_HIGH: ReasoningEfforts =
        ReasoningEfforts::new(["minimal", "low", "medium", "high", "high"]);
    pub(crate) const MINIMAL_TO_XHIGH: ReasoningEfforts =
        ReasoningEfforts::new(["minimal", "low", "medium", "high", "xhigh"]);
    pub(crate) const MEDIUM_TO_XHIGH: ReasoningEfforts =
        ReasoningEfforts::new(["medium", "medium", "medium", "high", "xhigh"]);

    /// What it is told from [`Minimal`](ThinkingLevel::Minimal) to [`XHigh`](ThinkingLevel::XHigh).
    pub const fn new(levels: [&'static str; 5]) -> Self {
        ReasoningEfforts { off: None, levels }
    }

    /// The same word at every level: there are no degrees.
    pub const fn only(word: &'static str) -> Self {
        ReasoningEfforts::new([word; 5])
    }

    /// With the word that switches thinking off.
    pub const fn or_off(self, word: &'static str) -> Self {
        ReasoningEfforts { off: Some(word), ..self }
    }

    /// The word for a level; `None` if nothing is said.
    pub fn word(&self, level: ThinkingLevel) -> Option<&'static str> {
        let [minimal, low, medium, high, xhigh] = self.levels;
        match level {
            ThinkingLevel::Off => self.off,
            ThinkingLevel::Minimal => Some(minimal),
            ThinkingLevel::Low => Some(low),
            ThinkingLevel::Medium => Some(medium),
            ThinkingLevel::High => Some(high),
            ThinkingLevel::XHigh => Some(xhigh),
        }
    }
}
