//! The metrics of the configuration and of its sources: etcd, a controller, and the gateways of a fleet.

use std::fmt;

use super::Scrape;
use crate::stats::page::Exporter;

impl Scrape {
    pub(super) fn config(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let status = &self.snapshot.status;
        page.gauge(
            "tollgate_config_generation",
            "Generation of the configuration that every worker runs; 1 at the start.",
        )?
        .set(status.generation)?;
        page.gauge("tollgate_config_last_reload_successful", "Whether the last reload took effect.")?
            .set(u64::from(status.last_reload_succeeded()))?;
        page.gauge(
            "tollgate_config_last_reload_success_timestamp_seconds",
            "Time at which the present configuration took effect.",
        )?
        .set(crate::status::seconds(status.in_force_since))?;
        self.controller(page)?;
        self.fleet(page)?;
        self.etcd(page)
    }

    /// Writes the families of a gateway whose source is a controller.
    fn controller(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let Some(controller) = self.snapshot.status.controller else { return Ok(()) };
        page.gauge("tollgate_controller_connected", "Whether a controller is connected.")?
            .set(u64::from(controller.connected))?;
        page.counter(
            "tollgate_controller_losses_total",
            "How often the connection to a controller was lost.",
        )?
        .set(controller.losses)?;
        page.gauge("tollgate_controller_version", "Version of the controller's documents that is in use.")?
            .set(controller.version)?;
        page.gauge(
            "tollgate_controller_refused_documents",
            "Invalid documents of the controller, instead of which the last valid ones stay in use.",
        )?
        .set(controller.refused as u64)?;
        page.gauge("tollgate_controller_purge", "Number of the controller's last purge that is carried out.")?
            .set(controller.purge)
    }

    /// Writes the families of a controller.
    fn fleet(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let Some(fleet) = self.snapshot.status.fleet else { return Ok(()) };
        page.gauge("tollgate_fleet_version", "Version of the documents that gateways get.")?
            .set(fleet.version)?;
        page.gauge("tollgate_fleet_documents", "Documents that gateways get.")?
            .set(fleet.documents as u64)?;
        page.gauge("tollgate_fleet_gateways", "Connected gateways.")?.set(fleet.gateways as u64)?;
        page.gauge(
            "tollgate_fleet_gateways_behind",
            "Connected gateways that do not use the present version.",
        )?
        .set(fleet.behind as u64)?;
        page.gauge(
            "tollgate_fleet_refused_documents",
            "Largest number of documents that one connected gateway refuses.",
        )?
        .set(fleet.refused as u64)?;
        page.counter(
            "tollgate_fleet_rejected_connections_total",
            "Connections without a valid certificate, or of something else than a gateway.",
        )?
        .set(fleet.rejected)?;
        page.counter("tollgate_fleet_purges_total", "Purges of caches that were made.")?.set(fleet.purges)?;
        page.gauge(
            "tollgate_fleet_gateways_behind_purges",
            "Connected gateways that have not carried out all purges.",
        )?
        .set(fleet.purges_behind as u64)
    }

    /// Writes the families of a gateway whose source is etcd.
    fn etcd(&self, page: &mut Exporter<'_>) -> fmt::Result {
        let Some(etcd) = self.snapshot.status.etcd else { return Ok(()) };
        page.gauge(
            "tollgate_etcd_connected",
            "Whether a member of the etcd that provides the configuration answers.",
        )?
        .set(u64::from(etcd.connected))?;
        page.counter(
            "tollgate_etcd_losses_total",
            "How often the connection to all members of etcd was lost.",
        )?
        .set(etcd.losses)?;
        page.gauge(
            "tollgate_etcd_revision",
            "Revision of etcd up to which every entry is applied or rejected.",
        )?
        .set(etcd.revision)?;
        page.gauge(
            "tollgate_etcd_refused_entries",
            "Invalid entries of etcd, instead of which the last valid ones stay in use.",
        )?
        .set(etcd.refused as u64)
    }
}
