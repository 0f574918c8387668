//! Makes the compressed forms of stored bodies.
//!
//! The policy `compression` hands the output of its compressor to a [`FormFill`] while it sends a hit; the first form of a
//! coding stays. Invariant: the forms of an object change only under the lock of the queues, and only while the object is
//! counted there. So the queues always know what it costs.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_http::ContentCoding;

use super::Store;
use super::stored::Stored;

/// A form that is being made: takes the output of a compressor, piece by piece. Dropped before [`finish`](Self::finish), it
/// leaves no form. Its bytes count with the fetches that run.
#[derive(Debug)]
pub struct FormFill {
    store: Arc<Store>,
    stored: Arc<Stored>,
    coding: ContentCoding,
    form: Vec<u8>,
    /// Whether it still fits.
    is_kept: bool,
    /// Bytes that are counted in [`Store::filling`].
    counted: u64,
}

impl FormFill {
    /// Appends output of the compressor.
    pub fn push(&mut self, data: &[u8]) {
        if !self.is_kept {
            return;
        }
        self.counted += data.len() as u64;
        let filling = self.store.filling.add(data.len() as u64);
        if self.counted > self.store.settings.object_bytes_max || !self.store.may_fill(filling, self.counted)
        {
            self.is_kept = false;
            self.form = Vec::new();
            self.store.filling.subtract(std::mem::take(&mut self.counted));
            return;
        }
        self.form.extend_from_slice(data);
    }

    /// Keeps the complete form, unless the response is no longer stored, or another request was first.
    pub fn finish(mut self) {
        if self.is_kept {
            // As a boxed slice, it keeps no spare capacity.
            let form = Bytes::from(std::mem::take(&mut self.form).into_boxed_slice());
            self.store.keep_form(&self.stored, self.coding, form);
        }
    }
}

impl Drop for FormFill {
    fn drop(&mut self) {
        self.store.filling.subtract(self.counted);
    }
}

impl Store {
    /// Starts to make the form of a coding for a stored body. `None`: there is one, or the body is not in memory.
    #[must_use]
    pub fn begin_form(self: &Arc<Self>, stored: &Arc<Stored>, coding: ContentCoding) -> Option<FormFill> {
        let is_wanted = stored.is_queued() && stored.form(coding).is_none();
        is_wanted.then(|| FormFill {
            store: self.clone(),
            stored: stored.clone(),
            coding,
            form: Vec::new(),
            is_kept: true,
            counted: 0,
        })
    }

    fn keep_form(&self, stored: &Arc<Stored>, coding: ContentCoding, form: Bytes) {
        if !self.fits_with(stored, form.len()) {
            return;
        }
        let is_kept = self.queues().grow(stored, || stored.set_form(coding, form));
        if is_kept {
            self.counters.count_form();
            self.evict();
        }
    }
}
