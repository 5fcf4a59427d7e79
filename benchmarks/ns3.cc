/* S1 of packet_engine.py on ns-3: NewReno flows over a dumbbell of point-to-point links, a drop-tail queue of one
 * bandwidth-delay product. Prints what arrived from BEGIN to END, in packets, and the CPU seconds that this took.
 * Slow start ends at a flow's share of the pipe: 3.37 crashes (a segment that it cannot find, in TcpRateLinux) while
 * it recovers from the many losses of an overshoot.
 *
 * ns3 CAPACITY [bit/s] RTT [s] FLOWS BUFFER [packets] BEGIN [s] END [s]
 */
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>

#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

using namespace ns3;

static const uint64_t DATA = 1448; /* of a packet of 1500 bytes, with the headers of IP and TCP and its timestamps */

/* Packets that have arrived in order, and CPU seconds, so far. */
static void
look(const ApplicationContainer *sinks, double sign, double *packets, double *seconds)
{
    for (uint32_t k = 0; k < sinks->GetN(); k++) {
        *packets += sign * double(DynamicCast<PacketSink>(sinks->Get(k))->GetTotalRx()) / double(DATA);
    }
    *seconds += sign * double(std::clock()) / CLOCKS_PER_SEC;
}

int
main(int argc, char **argv)
{
    if (argc != 7) {
        std::cerr << "usage: ns3 CAPACITY RTT FLOWS BUFFER BEGIN END\n";
        return 1;
    }
    const DataRate capacity{uint64_t(std::atof(argv[1]))};
    const Time delay = Seconds(std::atof(argv[2]) / 2.0);
    const uint32_t n_flows = uint32_t(std::atoi(argv[3]));
    const std::string buffer = std::string(argv[4]) + "p";
    const uint32_t threshold = uint32_t(capacity.GetBitRate() / 8.0 * 2.0 * delay.GetSeconds() / n_flows);
    const Time begin = Seconds(std::atof(argv[5])), end = Seconds(std::atof(argv[6]));

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpClassicRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(DATA));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(10000 * DATA));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(10000 * DATA));
    Config::SetDefault("ns3::TcpSocket::InitialSlowStartThreshold", UintegerValue(threshold));
    Config::SetDefault("ns3::BulkSendApplication::SendSize", UintegerValue(DATA));

    PointToPointHelper bottleneck, access;
    bottleneck.SetDeviceAttribute("DataRate", DataRateValue(capacity));
    bottleneck.SetChannelAttribute("Delay", TimeValue(delay));
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(buffer));
    access.SetDeviceAttribute("DataRate", DataRateValue(DataRate(100 * capacity.GetBitRate())));
    access.SetChannelAttribute("Delay", TimeValue(Time(0)));
    access.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000000p"));

    NodeContainer routers(2), senders(n_flows), receivers(n_flows);
    InternetStackHelper stack;
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    TrafficControlHelper queues; /* the devices' queues are all there is */
    stack.InstallAll();
    auto connect = [&](PointToPointHelper &link, Ptr<Node> from, Ptr<Node> to) {
        NetDeviceContainer devices = link.Install(from, to);
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        queues.Uninstall(devices);
        addresses.NewNetwork();
        return interfaces.GetAddress(1);
    };
    ApplicationContainer sources, sinks;
    connect(bottleneck, routers.Get(0), routers.Get(1));
    for (uint32_t k = 0; k < n_flows; k++) {
        connect(access, senders.Get(k), routers.Get(0));
        InetSocketAddress address(connect(access, routers.Get(1), receivers.Get(k)), 9);
        sources.Add(BulkSendHelper("ns3::TcpSocketFactory", address).Install(senders.Get(k)));
        sinks.Add(PacketSinkHelper("ns3::TcpSocketFactory", address).Install(receivers.Get(k)));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    double packets = 0.0, seconds = 0.0;
    Simulator::Schedule(begin, look, &sinks, -1.0, &packets, &seconds);
    Simulator::Schedule(end, look, &sinks, 1.0, &packets, &seconds);
    Simulator::Stop(end + NanoSeconds(1));
    Simulator::Run();
    Simulator::Destroy();
    std::cout << packets << ' ' << seconds << '\n';
    return 0;
}
