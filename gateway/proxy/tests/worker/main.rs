//! A worker in this process, between clients and origins of raw bytes: what can be seen only from inside, above all
//! that its books balance whatever way an exchange ends. The end-to-end tests, through the real binary, are in the
//! `tests` folder of the repository.

mod books;
mod bounds;
mod drain;
mod gateway;
mod origin;
mod smuggling;
