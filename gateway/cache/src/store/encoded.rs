//! The compressed forms of a stored body.
//!
//! A form is what a content coding makes of exactly the bytes of a body. It belongs to the stored response: it is evicted,
//! purged and replaced with it, and a response that a 304 makes of the same body takes it along. So nothing has to decide
//! whether a form is still valid. The policy `compression` makes a form while it compresses a hit, in a [`FormFill`]; the
//! first one for a coding stays. Forms are in memory alone: the disk tier has the plain body.
//!
//! Invariant: the forms of an object change only under the lock of the queues, and only while it is counted there. So the
//! queues always know what it costs.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::Store;
use super::body::allocated;
use super::stored::Stored;

/// A content coding of which a stored response can have a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

impl Coding {
    const COUNT: usize = 3;
}

/// The forms of a body, by their coding.
#[derive(Clone, Debug, Default)]
pub(super) struct Forms([OnceLock<Bytes>; Coding::COUNT]);

impl Forms {
    pub fn get(&self, coding: Coding) -> Option<&Bytes> {
        self.0[coding as usize].get()
    }

    /// Sets the form of a coding, unless there is one. Returns whether it did.
    pub fn set(&self, coding: Coding, form: Bytes) -> bool {
        self.0[coding as usize].set(form).is_ok()
    }

    /// Bytes on the heap, with themselves.
    pub fn heap_bytes(&self) -> u64 {
        let forms = self.0.iter().filter_map(OnceLock::get);
        allocated(size_of::<Self>()) as u64 + forms.map(|form| allocated(form.len()) as u64).sum::<u64>()
    }
}

/// The making of a form: takes the output of a compressor, piece by piece. Dropped before [`finish`](Self::finish), it
/// leaves no form. What it holds counts with the fetches that run.
#[derive(Debug)]
pub struct FormFill {
    store: Arc<Store>,
    stored: Arc<Stored>,
    coding: Coding,
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
    pub fn begin_form(self: &Arc<Self>, stored: &Arc<Stored>, coding: Coding) -> Option<FormFill> {
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

    fn keep_form(&self, stored: &Arc<Stored>, coding: Coding, form: Bytes) {
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
