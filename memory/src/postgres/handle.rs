//! The state shared by the clones and open sessions of a store.

use std::sync::Arc;

use loopwright_core::log::MemoryError;
use tokio::sync::mpsc::UnboundedSender;

use super::append::Append;
use super::background::Background;
use super::error::StoreError;
use super::link::Order;
use super::store::Store;

/// A handle to a store. Its thread ends with the last clone.
#[derive(Clone)]
pub(super) struct StoreHandle(Arc<Shared>);

/// The senders are dropped first, which ends the tasks that dropping `background` waits for.
struct Shared {
    appends: UnboundedSender<Append>,
    orders: UnboundedSender<Order>,
    store: Arc<Store>,
    background: Background,
}

impl StoreHandle {
    pub(super) fn new(
        appends: UnboundedSender<Append>,
        orders: UnboundedSender<Order>,
        store: Arc<Store>,
        background: Background,
    ) -> Self {
        StoreHandle(Arc::new(Shared { appends, orders, store, background }))
    }

    /// Returns the state of the store.
    pub(super) fn store(&self) -> &Arc<Store> {
        &self.0.store
    }

    /// Runs an operation on the thread of the store, to its end even if this future is dropped.
    pub(super) async fn run<T, F>(
        &self,
        operation: impl FnOnce(Arc<Store>) -> F,
    ) -> Result<T, MemoryError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let done = self.0.background.run(operation(self.store().clone())).await;
        done.map_err(|error| self.store().error(error))
    }

    /// Sends an order to the connection of the lease.
    pub(super) fn order(&self, order: Order) {
        let _ = self.0.orders.send(order); // without the thread, the lease ends
    }

    /// Returns the sender of orders to the connection of the lease.
    pub(super) fn orders(&self) -> UnboundedSender<Order> {
        self.0.orders.clone()
    }

    /// Passes an append to the writer.
    pub(super) fn append(&self, append: Append) -> Result<(), MemoryError> {
        let sent = self.0.appends.send(append);
        sent.map_err(|_| self.store().error(StoreError::Closed))
    }
}
