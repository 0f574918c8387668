//! One message model and its codecs.
