//! Typed values that a host hands through to its tools, hooks and predicates.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

/// Values that the host gives to tools, hooks and predicates by their type: a user id, a token
/// vault. Never logged, never sent to a model. Cheap to clone.
#[derive(Clone, Default)]
pub struct Extensions(Option<Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

impl Extensions {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a value, which takes the place of another one of its type.
    pub fn with<T: Any + Send + Sync>(mut self, value: T) -> Self {
        Arc::make_mut(self.0.get_or_insert_default()).insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// The value of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.as_ref()?.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// These values over those of `below`.
    pub fn over(&self, below: &Extensions) -> Extensions {
        match (&self.0, &below.0) {
            (None, _) => below.clone(),
            (_, None) => self.clone(),
            (Some(above), Some(below)) => {
                let mut all = (**below).clone();
                all.extend(above.iter().map(|(id, value)| (*id, value.clone())));
                Extensions(Some(Arc::new(all)))
            }
        }
    }
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Extensions({})", self.0.as_ref().map_or(0, |map| map.len()))
    }
}
