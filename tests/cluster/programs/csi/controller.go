package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	blockBytes         = 4096
	smallestFileSystem = 4 << 20
)

// wholeBlocks returns the bytes asked for, rounded up.
func wholeBlocks(r *csi.CapacityRange) int64 {
	return (r.GetRequiredBytes() + blockBytes - 1) / blockBytes * blockBytes
}

func (d *driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	r := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
	} {
		rpc := &csi.ControllerServiceCapability_RPC{Type: t}
		r.Capabilities = append(r.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: rpc},
		})
	}
	return r, nil
}

// checkCaps refuses what a disk on one node cannot do.
func checkCaps(caps []*csi.VolumeCapability) error {
	for _, c := range caps {
		if c.GetBlock() != nil {
			return fmt.Errorf("block volumes are not supported")
		}
		switch m := c.GetAccessMode().GetMode(); m {
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
			csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
			csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
			csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		default:
			return fmt.Errorf("access mode %s is not supported, volumes attach to one node", m)
		}
	}
	return nil
}

func (d *driver) CreateVolume(_ context.Context, q *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if q.Name == "" || len(q.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "name and capabilities required")
	}
	if err := checkCaps(q.VolumeCapabilities); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.Vols[q.Name]
	size := max(wholeBlocks(q.GetCapacityRange()), smallestFileSystem)
	if ok && v.Size < size {
		return nil, status.Error(codes.AlreadyExists, "volume exists with a smaller size")
	}
	if !ok {
		if err := d.fill(q.Name, size, q.GetVolumeContentSource()); err != nil {
			return nil, err
		}
		v = &vol{ID: q.Name, Size: size}
		d.Vols[v.ID] = v
		if err := d.save(); err != nil {
			return nil, internal(err)
		}
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:      v.ID,
		CapacityBytes: v.Size,
		ContentSource: q.VolumeContentSource,
		VolumeContext: q.Parameters,
	}}, nil
}

// fill makes the image of a new volume: empty, or a copy of a snapshot or of another volume.
func (d *driver) fill(id string, size int64, source *csi.VolumeContentSource) error {
	var err error
	switch {
	case source.GetSnapshot() != nil:
		s, ok := d.Snaps[source.GetSnapshot().SnapshotId]
		if !ok {
			return status.Errorf(codes.NotFound, "snapshot %s not found", source.GetSnapshot().SnapshotId)
		}
		if size < s.Size {
			return status.Errorf(codes.OutOfRange, "requested %d < snapshot size %d", size, s.Size)
		}
		err = copyImg(d.snapImg(s.ID), d.img(id))
	case source.GetVolume() != nil:
		v, ok := d.Vols[source.GetVolume().VolumeId]
		if !ok {
			return status.Errorf(codes.NotFound, "volume %s not found", source.GetVolume().VolumeId)
		}
		if size < v.Size {
			return status.Errorf(codes.OutOfRange, "requested %d < volume size %d", size, v.Size)
		}
		err = d.quiesced(d.img(v.ID), func() error { return copyImg(d.img(v.ID), d.img(id)) })
	default:
		err = d.create(d.img(id), size)
	}
	if err == nil {
		err = os.Truncate(d.img(id), size) // the node grows the file system to the image's size
	}
	if err != nil {
		return internal(err)
	}
	return nil
}

func (d *driver) DeleteVolume(_ context.Context, q *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v, ok := d.Vols[q.VolumeId]; ok {
		if v.Node != "" {
			return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s", v.ID, v.Node)
		}
		if err := os.Remove(d.img(v.ID)); err != nil && !os.IsNotExist(err) {
			return nil, internal(err)
		}
		delete(d.Vols, v.ID)
		if err := d.save(); err != nil {
			return nil, internal(err)
		}
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *driver) ControllerPublishVolume(_ context.Context, q *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.Vols[q.VolumeId]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "volume %s not found", q.VolumeId)
	}
	if v.Node != "" && v.Node != q.NodeId {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s", v.ID, v.Node)
	}
	v.Node = q.NodeId
	if err := d.save(); err != nil {
		return nil, internal(err)
	}
	log.Printf("attached %s to %s", v.ID, v.Node)
	return &csi.ControllerPublishVolumeResponse{}, nil
}

func (d *driver) ControllerUnpublishVolume(_ context.Context, q *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.Vols[q.VolumeId]
	if !ok || v.Node == "" || (q.NodeId != "" && v.Node != q.NodeId) {
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	// A loop device goes away a moment after its mount.
	for i := 0; i < 10 && len(loops(d.img(v.ID))) > 0; i++ {
		time.Sleep(200 * time.Millisecond)
	}
	how := "detached"
	if len(loops(d.img(v.ID))) > 0 {
		how = "forcibly detached (still mounted there)"
		if err := copyImg(d.img(v.ID), d.img(v.ID)); err != nil {
			return nil, internal(err)
		}
	}
	log.Printf("%s %s from %s", how, v.ID, v.Node)
	v.Node = ""
	if err := d.save(); err != nil {
		return nil, internal(err)
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (d *driver) ControllerExpandVolume(_ context.Context, q *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.Vols[q.VolumeId]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "volume %s not found", q.VolumeId)
	}
	if size := wholeBlocks(q.GetCapacityRange()); size > v.Size {
		if err := os.Truncate(d.img(v.ID), size); err != nil {
			return nil, internal(err)
		}
		v.Size = size
		if err := d.save(); err != nil {
			return nil, internal(err)
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Size, NodeExpansionRequired: true}, nil
}

func (d *driver) ValidateVolumeCapabilities(_ context.Context, q *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if err := checkCaps(q.VolumeCapabilities); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: q.VolumeCapabilities}}, nil
}
