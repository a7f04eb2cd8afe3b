package main

import (
	"context"
	"log"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	reg "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// internal is an error that may pass: it is tried again.
func internal(err error) error { return status.Error(codes.Internal, err.Error()) }

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "0.2.0"}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
	expansion := &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		{Type: &csi.PluginCapability_Service_{Service: service}},
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: expansion}},
	}}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// GetInfo and NotifyRegistrationStatus are what node-driver-registrar does elsewhere.
func (d *driver) GetInfo(context.Context, *reg.InfoRequest) (*reg.PluginInfo, error) {
	return &reg.PluginInfo{
		Type:              reg.CSIPlugin,
		Name:              d.name,
		Endpoint:          d.end,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (d *driver) NotifyRegistrationStatus(_ context.Context, s *reg.RegistrationStatus) (*reg.RegistrationStatusResponse, error) {
	log.Printf("registration: registered=%v error=%q", s.PluginRegistered, s.Error)
	if !s.PluginRegistered {
		os.Exit(1)
	}
	return &reg.RegistrationStatusResponse{}, nil
}
